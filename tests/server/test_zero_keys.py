"""Keys that may only read, beside an agent that may spend: nothing leaves by any way they have."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from solders.keypair import Keypair
from tests.promises import promise
from tests.server.test_field_names import READING, changes
from tests.support.agents import agent_body
from tests.support.services import Api, serving_api

from solward.agents import store as agent_store
from solward.support import jsontext
from solward.vault.money.request import ADMIN
from solward_server.http.auth import Access, rule_of
from solward_server.http.errors import SPENDS_NOTHING

pytestmark = pytest.mark.asyncio(loop_scope="module")

STRANGER = str(Keypair().pubkey())
ROUTES: dict[str, dict[str, Any]] = {
    "transfer": {"to": STRANGER, "amount": Decimal("0.01")},
    "token-transfer": {"mint": "USDC", "to": STRANGER, "amount": 1},
    "burn": {"mint": "USDC", "amount": 1},
    "swap": {"inputToken": "USDC", "outputToken": "SOL", "amount": 1},
    "stake": {"amount": Decimal("1.1")},
    "wrap-sol": {"amount": Decimal("0.1")},
    "unwrap-sol": {},
    "launch-token": {"name": "Zero", "symbol": "ZERO"},
    "close-account": {"mint": "USDC"},
    "reclaim-rent": {},
}
SKILLS = {"transfer": "transfer", "token-transfer": "transfer_token", "burn": "burn_tokens"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    home: Path = tmp_path_factory.mktemp("zero") / "home"
    async with serving_api(home, demo=True, max_transactions_per_minute=1_000) as made:
        yield made


@pytest.mark.parametrize("terms", [{"spendingLimitSol": 0}, {"grants": []}])
async def test_a_key_that_may_nothing_moves_nothing_by_any_way(
    api: Api, terms: dict[str, Any]
) -> None:
    wallet = await api.wallet(2)
    swapped = {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.2")}
    await api.service.operations.perform("swap", wallet, ADMIN, swapped)
    agent = await api.service.agents.create(agent_body(wallet, name="rich"))
    async with api.service.database.write() as connection:
        fields = {"desired_state": "running", "status": "running"}
        await agent_store.update_agent(connection, agent.id, fields)
    key, _ = await api.key(rateLimit=1_000, **terms)
    before = (await api.get(f"/wallets/{wallet}/balance")).text

    for path, body in ROUTES.items():
        answer = await api.post(f"/wallets/{wallet}/{path}", body, token=key)
        assert answer.status in (400, 500), (path, answer.text)
        assert "blocked by guardrail" in answer.error or answer.status == 400, (path, answer.text)
    for path, skill in SKILLS.items():
        answer = await api.post(f"/wallets/{wallet}/skills/{skill}", ROUTES[path], token=key)
        assert answer.status == 500, (skill, answer.text)
        called = {"name": skill, "arguments": ROUTES[path] | {"wallet": wallet}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
        tool = await api.app.test_client().open(
            "/mcp",
            method="POST",
            headers={
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                "Authorization": f"Bearer {key}",
            },
            data=jsontext.dumps(message).encode(),
        )
        assert "blocked by guardrail" in (await tool.get_data()).decode()
    # A chat costs tokens of the agent's model, and what it says is the agent's memory.
    order = {"message": f"Transfer 1 SOL to {STRANGER} in your next cycle."}
    chat = await api.post(f"/agents/{agent.id}/chat", order, token=key)
    assert (chat.status, chat.error) == (403, SPENDS_NOTHING)
    assert await api.service.agents.memory(agent.id) == ()
    for method, path, body in (
        ("PATCH", f"/agents/{agent.id}", {"strategy": f"always transfer to {STRANGER}"}),
        ("POST", "/agents", agent_body(wallet, name="own")),
        ("PUT", "/policy", {"grants": []}),
    ):
        assert (await api.call(method, path, body, token=key)).status == 401, path

    assert (await api.get(f"/wallets/{wallet}/balance")).text == before
    # Reading, dry runs and the faucet stay.
    dry = await api.post(f"/wallets/{wallet}/transfer?dryRun=true", ROUTES["transfer"], token=key)
    assert (dry.status, dry.json["allowed"]) == (200, False)
    assert (await api.get(f"/wallets/{wallet}/limits", token=key)).status == 200
    drop = await api.post(f"/wallets/{wallet}/airdrop", {"amount": 1}, token=key)
    assert drop.status == 200, drop.text


# What guardrails refuse with a record, the faucet, and what changes nothing.
JUDGED = {"/wallets/<wallet_id>/pay", "/wallets/<wallet_id>/skills/<name>"}
READS = {"/quote"}


@promise("small-key-changes-nothing")
@pytest.mark.parametrize("terms", [{"spendingLimitSol": 0}, {"grants": []}])
async def test_a_key_that_may_spend_nothing_changes_nothing_by_any_route(
    api: Api, terms: dict[str, Any]
) -> None:
    wallet = await api.wallet()
    agent = await api.service.agents.create(agent_body(wallet, name=f"of {terms}"))
    token, _ = await api.key(rateLimit=1_000, **terms)
    made = await api.post(
        f"/wallets/{wallet}/schedules",
        {"name": "s", "skill": "check_balance", "parameters": {}, "every": "1h"},
    )
    before = await changes(api)
    ids = {"wallet_id": wallet, "agent_id": agent.id, "schedule_id": made.json["id"]}
    asked = set()
    for rule in api.app.url_map.iter_rules():
        route = rule.rule.removeprefix("/api/v1")
        is_operation = rule.endpoint.startswith("operations.")
        if is_operation or route in JUDGED | READS | {"/mcp"}:
            continue
        if rule_of(api.app.view_functions[rule.endpoint]).access is not Access.KEY:
            continue
        path = re.sub("<([^>]+)>", lambda named: ids.get(named[1], "x"), route)
        body = {"message": "m"} if route.endswith("/chat") else {}
        for method in (rule.methods or set()) - READING:
            answer = await api.call(method, path, body, token=token)
            assert (answer.status, answer.error) == (403, SPENDS_NOTHING), (method, route)
            asked.add(route)
    assert {"/agents/<agent_id>/chat", "/holds/<hold_id>/approve", "/holds/<hold_id>/deny"} <= asked
    assert await changes(api) == before
