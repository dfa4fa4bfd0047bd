"""Clauses of docs/reference/contract.md that no other test holds: defaults, names, counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.services import STRANGER, Api, serving_api

from solward.settings import Settings
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store.transactions import insert_record

SKILLS = [
    "check_balance", "swap", "transfer", "airdrop", "token_info", "wait",
    "launch_token", "mint_supply", "revoke_mint_authority", "burn_tokens", "close_token_account",
    "stake_sol", "unstake_sol", "withdraw_stake", "list_stakes", "wrap_sol", "unwrap_sol",
]  # fmt: skip


@promise("success-is-200")
async def test_every_success_is_200_but_for_what_a_person_is_asked(api: Api) -> None:
    paths = (await api.get("/openapi.json", token=None)).json["paths"]
    others = {}
    for path, operations in paths.items():
        if path == "/mcp":  # its statuses are MCP's
            continue
        for operation in operations.values():
            if not isinstance(operation, dict):
                continue
            found = {each for each in operation.get("responses", ()) if each.startswith("2")}
            assert "200" in found, path
            others |= {status: operation["responses"][status] for status in found - {"200"}}
    assert list(others) == ["202"]
    content = others["202"]["content"]["application/json"]
    assert content["schema"] == {"$ref": "#/components/schemas/Held"}


@promise("records-newest-first")
async def test_a_list_has_50_records_unless_said_otherwise(api: Api) -> None:
    wallet = await api.wallet()
    ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(51)]
    async with api.service.database.write() as connection:
        for number, record_id in enumerate(ids):
            record = TransactionRecord(
                id=record_id, wallet_id=wallet, type="other", details={},
                status=TransactionStatus.CONFIRMED, guardrails_applied=(), created_ms=number,
                principal="admin",
            )  # fmt: skip
            await insert_record(connection, record, action_key=None)
    for path in ("/transactions", f"/wallets/{wallet}/transactions"):
        found = (await api.get(path)).json["transactions"]
        assert [each["id"] for each in found] == ids[:0:-1]


@promise("key-defaults")
async def test_a_key_makes_10_requests_a_minute_unless_said_otherwise(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", max_transactions_per_minute=100) as api:
        key, _ = await api.key()
        path = f"/wallets/{await api.wallet()}/airdrop"
        answers = [await api.post(path, {"amount": 0.01}, token=key) for _ in range(11)]
        assert [answer.status for answer in answers] == [200] * 10 + [429]
        assert "10 transaction requests and chats a minute" in answers[-1].error


@promise("key-defaults")
async def test_a_key_spends_5_sol_a_day_unless_said_otherwise(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", max_transactions_per_minute=100) as api:
        key, _ = await api.key()
        wallet = await api.wallet(2)
        for _ in range(2):
            await api.post(f"/wallets/{wallet}/airdrop", {"amount": 2})
        path = f"/wallets/{wallet}/transfer"
        for sol in (2, 2, 1):
            assert (await api.post(path, {"to": STRANGER, "amount": sol}, token=key)).status == 200
        answer = await api.post(path, {"to": STRANGER, "amount": 0.1}, token=key)
        assert (answer.status, "spending_limit_check" in answer.error) == (500, True)
        assert "of the 5 SOL allowed in 24 hours" in answer.error


@promise("permissions-not-enforced")
async def test_permissions_are_listed_and_not_enforced(api: Api) -> None:
    wallet = await api.wallet(1)
    key, _ = await api.key(permissions=["read"])
    assert (await api.get("/keys")).json["keys"][0]["permissions"] == ["read"]
    body = {"to": STRANGER, "amount": 0.1}
    assert (await api.post(f"/wallets/{wallet}/transfer", body, token=key)).status == 200


@promise("swap-fields")
async def test_a_swap_slips_50_basis_points_unless_said_otherwise(api: Api) -> None:
    wallet = await api.wallet(1)
    body = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1}
    answer = await api.post(f"/wallets/{wallet}/swap", body)
    assert (answer.status, answer.json["slippageBps"]) == (200, 50)


@promise("balance-shape")
async def test_a_token_without_a_known_symbol_has_none(api: Api) -> None:
    wallet = await api.wallet(1)
    body = {"name": "Demo", "symbol": "DEMO", "decimals": 2, "initialSupply": 5}
    assert (await api.post(f"/wallets/{wallet}/launch-token", body)).status == 200
    (token,) = (await api.get(f"/wallets/{wallet}/balance")).json["tokens"]
    assert sorted(token) == ["decimals", "mint", "rawBalance", "uiBalance"]
    assert (token["uiBalance"], token["rawBalance"], token["decimals"]) == (5, "500", 2)


@promise("unknown-provider-is-400")
async def test_the_providers_are_four_and_another_is_400_listing_them(api: Api) -> None:
    body = agent_body(await api.wallet(), "OpenAI", name="a", llmModel="m", strategy="s")
    answer = await api.post("/agents", body)
    names = "anthropic, gemini, grok, openai"
    assert (answer.status, answer.error) == (400, f"llmProvider must be one of: {names}")


@promise("built-in-skills")
async def test_the_built_in_skills_are_the_contracts_17_and_two_more(api: Api) -> None:
    found = [skill["name"] for skill in (await api.get("/skills")).json["skills"]]
    assert sorted(found) == sorted([*SKILLS, "transfer_token", "pay_request"])
    assert len(SKILLS) == 17


@promise("observation-contents")
async def test_an_agent_observes_its_5_newest_transactions(tmp_path: Path) -> None:
    given: dict[str, Any] = {"demo": True, "max_transactions_per_minute": 100}
    async with serving_api(tmp_path / "home", **given) as api:
        wallet = await api.wallet()
        for number in range(1, 7):
            await api.post(f"/wallets/{wallet}/airdrop", {"amount": number / 10})
        made = await api.post("/agents", agent_body(wallet, name="watcher"))
        agent = made.json["id"]
        with api.service.events.subscribe() as events:
            await api.post(f"/agents/{agent}/start")
            async with asyncio.timeout(20):
                async for event in events:
                    if event.event == "agent:decision" and event.data["agentId"] == agent:
                        break
        (decision,) = (await api.get(f"/agents/{agent}/decisions?limit=1")).json["decisions"]
        recent = decision["observations"]["recentTransactions"]
        assert [float(each["details"]["amount"]) for each in recent] == [0.6, 0.5, 0.4, 0.3, 0.2]
        assert sorted(recent[0]) == ["details", "status", "timestamp", "type"]


@promise("dashboard-port-and-url")
def test_the_dashboard_finds_the_local_service_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEXT_PUBLIC_API_URL", "NEXT_PUBLIC_API_SECRET", "API_SECRET", "DASHBOARD_PORT"):
        monkeypatch.delenv(name, raising=False)
    alone = Settings(_env_file=None, api_secret="of-the-service")
    assert alone.dashboard_port == 3000
    assert alone.dashboard_target[0] == "http://127.0.0.1:3001"
    assert alone.dashboard_api_secret == "of-the-service"
    elsewhere = Settings(
        _env_file=None, next_public_api_url="https://a.example", next_public_api_secret="its-own"
    )
    assert elsewhere.dashboard_target[0] == "https://a.example"
    assert elsewhere.dashboard_api_secret == "its-own"
