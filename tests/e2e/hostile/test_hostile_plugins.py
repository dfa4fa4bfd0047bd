"""Third-party plugins installed beside the service: broken ones are reported, thieves blocked."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.hostile.broken import PLUGINS
from tests.promises import promise
from tests.support.processes import Service, funded_wallet, sol_of

THEFTS = Path(__file__).with_name("thefts.py").read_text()

# What each theft is refused by.
RULES = {
    "drain": "simulated_effects",
    "approve_delegate": "authority_change",
    "assign_owner": "authority_change",
    "close_to_stranger": "program_allowlist",
    "absurd_fee": "fee_limit",
}


def install(site: Path, distribution: str, plugins: dict[str, str]) -> None:
    """Lay a distribution out as pip would: modules, metadata, entry points."""
    info = site / f"{distribution}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1\n")
    lines = ["[solward.skills]"]
    for name, source in plugins.items():
        module = f"{distribution.replace('-', '_')}_{name}"
        (site / f"{module}.py").write_text(source)
        lines.append(f"{name} = {module}")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def service(services: Any, tmp_path: Path) -> Service:
    site = tmp_path / "site"
    install(site, "broken-skills", {name: source for name, (source, _) in PLUGINS.items()})
    names = [*RULES, "open_account"]
    install(
        site,
        "thieves",
        {name: THEFTS.replace('THEFT = "drain"', f'THEFT = "{name}"') for name in names},
    )
    started: Service = services(PYTHONPATH=str(site)).start()
    return started


@pytest.mark.more
@promise("broken-import-stops-no-start")
def test_broken_plugins_are_reported_and_the_service_serves(service: Service) -> None:
    with service.client() as client:
        found = client.get("/plugins").json()
        reported = {p["plugin"]: p["code"] for p in found["problems"]}
        assert reported == {name: code for name, (_, code) in PLUGINS.items() if code}
        assert all(p["distribution"] == "broken-skills" for p in found["problems"])
        wallet = funded_wallet(client, "w", 2)
        to = client.post("/wallets", json={"name": "to"}).json()
        skill = client.post(
            f"/wallets/{wallet}/skills/transfer", json={"to": to["address"], "amount": 0.5}
        )
        assert skill.status_code == 200, skill.text
        assert "mine" not in skill.text
        assert sol_of(client, to["walletId"]) == Decimal("0.5")
        late = client.post(f"/wallets/{wallet}/skills/sleeper", json={})
        assert late.status_code == 500
        assert "did not finish within 0.2 s" in late.json()["error"]


@pytest.mark.more
@promise("refused-is-never-signed", "no-signature-on-chosen-bytes")
def test_thieves_are_blocked_each_by_its_rule(service: Service) -> None:
    with service.client() as client:
        wallet = funded_wallet(client, "victim", 2)
        opened = client.post(f"/wallets/{wallet}/skills/open_account", json={})
        assert opened.status_code == 200, opened.text
        before = sol_of(client, wallet)
        for theft, rule in RULES.items():
            answer = client.post(f"/wallets/{wallet}/skills/{theft}", json={})
            assert answer.status_code == 500, (theft, answer.text)
            assert rule in answer.json()["error"], (theft, answer.text)
            record = client.get(f"/wallets/{wallet}/transactions?limit=1").json()["transactions"][0]
            assert record["status"] == "blocked"
            assert record["guardrailsApplied"][-1] == rule
            assert "signature" not in record
        assert sol_of(client, wallet) == before
