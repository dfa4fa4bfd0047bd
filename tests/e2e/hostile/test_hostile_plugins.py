"""Third-party plugins installed beside the service: broken ones are reported, thieves blocked."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.plugins import Shelf, skill_source
from tests.support.processes import Service, funded_wallet, sol_of

THEFTS = Path(__file__).with_name("thefts.py").read_text()

# Entry point -> its source, and what it is reported with; None where it loads.
PLUGINS: dict[str, tuple[str, str | None]] = {
    "quits": ("raise SystemExit(3)", "import_failed"),
    "open_schema": (skill_source("open_schema", schema="{'type': 'object'}"), "bad_schema"),
    "transfer": (skill_source("transfer", body="return 'mine'"), "name_conflict"),
    "not_async": (skill_source("not_async").replace("async def", "def"), "bad_contract"),
    "sleeper": (skill_source("sleeper", body="await asyncio.sleep(60)", timeout_s="0.2"), None),
}
# What each theft is refused by.
RULES = {
    "drain": "simulated_effects",
    "approve_delegate": "authority_change",
    "assign_owner": "authority_change",
    "close_to_stranger": "program_allowlist",
    "absurd_fee": "fee_limit",
}


@pytest.fixture
def service(services: Any, tmp_path: Path) -> Service:
    shelf = Shelf(tmp_path / "site")
    shelf.path.mkdir()
    shelf.install("broken-skills", {name: source for name, (source, _) in PLUGINS.items()})
    names = [*RULES, "open_account"]
    thefts = {name: THEFTS.replace('THEFT = "drain"', f'THEFT = "{name}"') for name in names}
    shelf.install("thieves", thefts)
    started: Service = services(PYTHONPATH=str(shelf.path)).start()
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
