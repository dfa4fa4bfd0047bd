"""Agents over REST: their states, what they did, and who may see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.services import NOBODY, Api, serving_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home", demo=True) as made:
        yield made


def body(wallet: str, **changes: Any) -> dict[str, Any]:
    return agent_body(wallet, name="watcher") | changes


async def decided(api: Api, agent: str) -> list[Any]:
    """The agent's decisions, once there is one."""
    async with asyncio.timeout(20):
        while True:
            answer = await api.get(f"/agents/{agent}/decisions")
            found: list[Any] = answer.json["decisions"]
            if found:
                return found
            await asyncio.sleep(0.02)


@promise("agent-create-fields", "start-and-stop-repeat", "agent-routes-beyond", "memory-keeps-100")
async def test_an_agents_life(api: Api) -> None:
    wallet = await api.wallet(1)
    required = body(wallet)
    del required["loopIntervalMs"]
    made = (await api.post("/agents", required)).json
    agent = made["id"]
    assert made == {"id": agent, "name": "watcher", "status": "idle", "walletId": wallet}
    shown = (await api.get(f"/agents/{agent}")).json
    assert (shown["loopIntervalMs"], shown["status"]) == (60000, "idle")
    assert (await api.get("/agents")).json == {"agents": [shown]}
    for action, answer, status in (
        ("start", "started", "running"),
        ("start", "started", "running"),
        ("pause", "paused", "paused"),
        ("start", "started", "running"),
        ("stop", "stopped", "stopped"),
        ("stop", "stopped", "stopped"),
        ("start", "started", "running"),
    ):
        result = await api.post(f"/agents/{agent}/{action}")
        assert (result.status, result.json) == (200, {"status": answer})
        assert (await api.get(f"/agents/{agent}")).json["status"] == status
    (decision, *_) = await decided(api, agent)
    assert decision["agentId"] == agent
    assert decision["observations"]["solBalance"] == 1
    assert decision["action"].startswith("wait(")
    (entry, *_) = (await api.get(f"/agents/{agent}/memory")).json["memory"]
    assert sorted(entry) == ["action", "cycle", "outcome", "reasoning", "timestamp"]
    health = (await api.get("/health")).json["agents"]
    assert (health["total"], health["runningAgents"]) == (1, 1)
    changed = await api.call("PATCH", f"/agents/{agent}", {"name": "other"})
    assert changed.json["name"] == "other"
    assert (await api.call("DELETE", f"/agents/{agent}")).json == {"id": agent, "deleted": True}
    assert (await api.get(f"/agents/{agent}")).error == "Agent not found"


@promise("agent-routes-beyond", "limits-show-rest")
async def test_an_agents_limits_are_shown(api: Api) -> None:
    wallet = await api.wallet()
    limits = {"maxSolPerTransaction": 1, "dailySpendingLimitSol": 3}
    agent = (await api.post("/agents", body(wallet, guardrails=limits))).json["id"]
    shown = (await api.get(f"/agents/{agent}/limits")).json
    assert shown["walletId"] == wallet
    assert shown["maxSolPerTransaction"]["limit"] == 1
    assert shown["dailySpendingLimitSol"]["left"] == 3


@promise("second-form-makes-wallet")
async def test_the_second_form_makes_the_agents_wallet(api: Api) -> None:
    sent = body("", maxSolPerTransaction=1)
    del sent["walletId"]
    made = await api.post("/agents", sent)
    assert made.status == 200, made.text
    (wallet,) = (await api.get("/wallets")).json["wallets"]
    assert (wallet["id"], wallet["name"]) == (made.json["walletId"], "watcher-wallet")


@promise("404-texts")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/start"),
        ("POST", "/stop"),
        ("POST", "/pause"),
        ("GET", "/decisions"),
        ("GET", "/memory"),
        ("GET", "/limits"),
    ],
)
async def test_an_unknown_agent_is_404(api: Api, method: str, path: str) -> None:
    answer = await api.call(method, f"/agents/{NOBODY}{path}")
    assert (answer.status, answer.error) == (404, "Agent not found")


async def test_a_confined_key_sees_only_its_wallets_agents(api: Api) -> None:
    mine, other = await api.wallet(), await api.wallet()
    visible = (await api.post("/agents", body(mine))).json["id"]
    hidden = (await api.post("/agents", body(other))).json["id"]
    key, _ = await api.key(walletId=mine)
    shown = (await api.get("/agents", token=key)).json["agents"]
    assert [agent["id"] for agent in shown] == [visible]
    assert (await api.get(f"/agents/{visible}", token=key)).status == 200
    for path in ("", "/decisions", "/memory", "/limits"):
        answer = await api.get(f"/agents/{hidden}{path}", token=key)
        assert (answer.status, answer.error) == (404, "Agent not found")


@pytest.mark.parametrize("query", ["before=x", "before=0", "limit=0", "limit=501"])
async def test_a_bad_page_of_decisions_is_400(api: Api, query: str) -> None:
    agent = (await api.post("/agents", body(await api.wallet()))).json["id"]
    answer = await api.get(f"/agents/{agent}/decisions?{query}")
    assert answer.status == 400
    assert answer.error.startswith(query.partition("=")[0])
