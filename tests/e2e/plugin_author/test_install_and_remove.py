"""Plugins installed with pip and removed again, while services and agents come and go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.e2e.plugin_author.environments import Environment
from tests.support.agents import agent_body
from tests.support.clock import wait_until
from tests.support.processes import Service, funded_wallet

# pip and a service's start, several times over: minutes on a busy machine.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]

MAINNET = {"SOLANA_NETWORK": "mainnet-beta", "SOLANA_RPC_URL": "http://127.0.0.1:1"}


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a skill's project, a provider's and a guardrail's, installed nowhere."""
    folder = tmp_path_factory.mktemp("projects")
    environment = Environment(folder / "env")
    for name, kind in (("tip_jar", "skill"), ("pacer", "provider"), ("careful", "guardrail")):
        made = environment.solward("plugins", "new", name, "--kind", kind, cwd=folder)
        assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "env")


def listed(environment: Environment, cwd: Path, **variables: str) -> dict[str, Any]:
    """`solward plugins list` of third parties: name -> status and problem."""
    done = environment.solward("plugins", "list", "--json", cwd=cwd, **variables)
    assert done.returncode == 0, done.stderr
    return {
        row["name"]: (row["status"], row["problem"])
        for row in json.loads(done.stdout)["plugins"]
        if row["distribution"] != "solward"
    }


def test_what_solward_plugins_names_is_loaded_and_nothing_else(
    projects: Path, environment: Environment, tmp_path: Path
) -> None:
    assert listed(environment, tmp_path) == {}
    environment.install(projects / "tip_jar", projects / "pacer")
    loaded, left_out = ("loaded", ""), ("left out", "not_allowed")
    names = ("tip_jar", "tip_jar_total", "pacer")
    assert listed(environment, tmp_path) == dict.fromkeys(names, loaded)
    for none in ({"SOLWARD_PLUGINS": "solward"}, MAINNET):
        assert listed(environment, tmp_path, **none) == dict.fromkeys(names, left_out)
    named = {"SOLWARD_PLUGINS": "solward, Tip_Jar"}
    for some in (named, MAINNET | named):
        assert listed(environment, tmp_path, **some) == {
            "tip_jar": loaded,
            "tip_jar_total": loaded,
            "pacer": left_out,
        }
    environment.uninstall("tip-jar", "pacer", cwd=tmp_path)
    assert listed(environment, tmp_path) == {}


@pytest.mark.parametrize("named", [{}, {"SOLWARD_PLUGINS": "*"}, {"SOLWARD_PLUGINS": "tip-jar,*"}])
def test_on_mainnet_plugins_must_be_named(
    environment: Environment, tmp_path: Path, named: dict[str, str]
) -> None:
    secret = {"API_SECRET": "a-secret-for-tests-of-at-least-32-bytes"}
    start = ("server", "start", "--port", "0")
    done = environment.solward(*start, cwd=tmp_path, **MAINNET, **secret, **named)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: SOLWARD_PLUGINS must name the distributions")
    assert done.stderr.count("\n") == 1


def test_a_plugin_comes_and_goes_with_a_restart_and_its_agents_say_so(
    projects: Path, environment: Environment, services: Callable[..., Service]
) -> None:
    service = services()
    service.python = environment.python
    service.starting = ("up", "--demo", "--no-rpc")
    service.start()
    with service.client() as client:
        environment.install(*(projects / name for name in ("tip_jar", "pacer", "careful")))
        assert "tip_jar" not in names(client, "/skills", "skills")
    restarted(service)
    with service.client() as client:
        assert {"tip_jar", "tip_jar_total"} <= names(client, "/skills", "skills")
        assert client.get("/plugins").json()["guardrails"] == ["careful"]
        wallet = funded_wallet(client, "mine", 4)
        answer = client.post(f"/wallets/{wallet}/skills/tip_jar", json={"amount": 0.02})
        assert answer.status_code == 200, answer.text
        [record] = client.get(f"/wallets/{wallet}/transactions?limit=1").json()["transactions"]
        assert record["guardrailsApplied"][-1] == "careful"
        much = client.post(f"/wallets/{wallet}/transfer", json={"to": address(client), "amount": 1})
        assert much.status_code == 500
        assert "guardrail careful: a transfer may be at most 0.5 SOL" in much.json()["error"]
        paced = agent(client, wallet, "pacer", "run tip_jar", llmOptions={"every": 1})
        ruled = agent(client, wallet, "rules", "always do tip_jar amount=0.03")
        assert "Tipped 0.01 SOL" in outcome(client, paced, "Tipped")
        assert "Tipped 0.03 SOL" in outcome(client, ruled, "Tipped")
    environment.uninstall("tip-jar", "careful", cwd=projects)
    restarted(service)
    with service.client() as client:
        assert "tip_jar" not in names(client, "/skills", "skills")
        assert client.get("/plugins").json()["problems"] == []
        gone = client.post(f"/wallets/{wallet}/skills/tip_jar", json={})
        assert gone.status_code == 404
        assert "tip_jar" in gone.json()["error"]
        much = client.post(f"/wallets/{wallet}/transfer", json={"to": address(client), "amount": 1})
        assert much.status_code == 200, much.text
        assert "no skill named 'tip_jar'" in outcome(client, ruled, "no skill")
        assert "names no skill that is installed" in outcome(client, paced, "names no")
    environment.uninstall("pacer", cwd=projects)
    restarted(service)
    with service.client() as client:
        lost = "The provider 'pacer' is not loaded: install its plugin"
        assert lost in outcome(client, paced, "not loaded")
        shown = client.get(f"/agents/{paced}").json()
        assert shown["llmProvider"] == "pacer"
        assert client.post(f"/agents/{paced}/stop").status_code == 200
        refused = client.post(f"/agents/{paced}/start")
        assert refused.status_code == 400
        assert refused.json()["error"].startswith(lost)
        change = {"llmProvider": "rules", "llmOptions": {}, "strategy": "always do wait"}
        assert client.patch(f"/agents/{paced}", json=change).status_code == 200
        assert client.post(f"/agents/{paced}/start").status_code == 200
        assert "Waited" in outcome(client, paced, "Waited")
        assert client.delete(f"/agents/{paced}").status_code == 200


def restarted(service: Service) -> None:
    assert service.stop() == 0
    service.start()


def names(client: httpx.Client, path: str, key: str) -> set[str]:
    return {each["name"] for each in client.get(path).json()[key]}


def address(client: httpx.Client) -> str:
    return str(client.post("/wallets", json={}).json()["address"])


def agent(client: httpx.Client, wallet: str, provider: str, strategy: str, **more: Any) -> str:
    """A running agent, one cycle a second."""
    body = agent_body(
        wallet, provider, name=provider, llmModel="any", strategy=strategy, loopIntervalMs=1000
    )
    made = client.post("/agents", json=body | more)
    assert made.status_code == 200, made.text
    started = client.post(f"/agents/{made.json()['id']}/start")
    assert started.status_code == 200, started.text
    return str(made.json()["id"])


def outcome(client: httpx.Client, agent_id: str, part: str) -> str:
    """The agent's latest outcome, once it has `part`."""

    def said() -> str | None:
        decisions = client.get(f"/agents/{agent_id}/decisions?limit=1").json()["decisions"]
        found = str(decisions[0]["outcome"]) if decisions else ""
        return found if part in found else None

    return str(wait_until(said, f"an outcome with {part!r}"))
