"""The contract's examples for agents, on the wire: made, started, acting, stopped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
from tests.promises import promise
from tests.support.processes import running, up_client


def decisions(api: httpx.Client, agent: str) -> list[dict[str, Any]]:
    """The agent's decisions, once there are two."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found: list[dict[str, Any]] = api.get(f"/agents/{agent}/decisions").json()["decisions"]
        if len(found) >= 2:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


@promise("agents-survive-restart")
def test_an_agent_is_made_started_acts_and_is_stopped(tmp_path: Path) -> None:
    up = ("up", "--demo", "--port", "0", "--no-rpc")
    with running(tmp_path / "home", *up) as (_, screen), up_client(screen) as api:
        wallet = api.post("/wallets", json={"name": "agents"}).json()["walletId"]
        body = {
            "name": "saver",
            "walletId": wallet,
            "llmProvider": "rules",
            "llmModel": "rules",
            "strategy": "when balance.SOL < 0.5 do airdrop amount=1\nalways do wait",
            "loopIntervalMs": 1000,
            "guardrails": {
                "maxSolPerTransaction": 1,
                "maxTransactionsPerMinute": 3,
                "dailySpendingLimitSol": 5,
            },
        }
        made = api.post("/agents", json=body)
        assert made.status_code == 200, made.text
        agent = made.json()["id"]
        assert (made.json()["name"], made.json()["status"]) == ("saver", "idle")
        agents = api.get("/agents").json()["agents"]
        shown = next(item for item in agents if item["id"] == agent)
        assert {**shown, **body} == shown
        assert shown["status"] == "idle"
        assert shown["createdAt"].endswith("Z")

        started = api.post(f"/agents/{agent}/start")
        assert (started.status_code, started.json()) == (200, {"status": "started"})
        newest, *_, first = decisions(api, agent)
        assert sorted(first) == [
            "action",
            "agentId",
            "cycle",
            "observations",
            "outcome",
            "reasoning",
            "timestamp",
        ]
        name, _, parameters = first["action"].partition("(")
        assert (name, json.loads(parameters.removesuffix(")"))) == ("airdrop", {"amount": 1})
        assert newest["action"].startswith("wait(")
        assert newest["observations"]["solBalance"] == 1
        (record,) = api.get(f"/wallets/{wallet}/transactions").json()["transactions"]
        assert (record["agentId"], record["type"]) == (agent, "airdrop")
        assert record["status"] == "confirmed"

        stopped = api.post(f"/agents/{agent}/stop")
        assert (stopped.status_code, stopped.json()) == (200, {"status": "stopped"})
        ended = api.get(f"/agents/{agent}/decisions").json()["decisions"][0]["cycle"]
        assert api.get(f"/agents/{agent}").json()["status"] == "stopped"
        memory = api.get(f"/agents/{agent}/memory").json()["memory"]
        assert memory[0]["cycle"] == ended
        health = api.get("/health").json()["agents"]
        assert (health["totalAgents"], health["stoppedAgents"]) == (2, 1)
        for action in ("start", "stop"):
            answer = api.post(f"/agents/nobody/{action}")
            assert (answer.status_code, answer.json()) == (404, {"error": "Agent not found"})
        wrong = api.post("/agents", json=body | {"llmProvider": "oracle"})
        assert wrong.status_code == 400
        assert "rules" in wrong.json()["error"]
