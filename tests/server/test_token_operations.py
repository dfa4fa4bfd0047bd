"""The token operations by every door: REST, the skill's endpoint, and an agent's own cycle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import agent_body
from tests.support.api import Api, serving_api

from solward.types.errors import LedgerUnavailable
from solward.vault.ledger.client import RpcLedger

USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
AWAY = "The ledger did not answer"


@dataclass(frozen=True)
class Case:
    """One operation: its names, what is asked of a mint, and what cannot be asked."""

    skill: str
    path: str
    type: str
    params: dict[str, Any]
    bad: dict[str, Any]
    refusal: str
    empty: bool = False

    def asked(self, mint: str) -> dict[str, Any]:
        return self.params if self.skill == "launch_token" else {"mint": mint} | self.params


CASES = [
    Case("launch_token", "launch-token", "token_launch",
         {"name": "Second coin", "symbol": "TWO", "decimals": 2, "initialSupply": 5},
         {"name": "é" * 17}, "name must be printable text of 1 to 32 bytes of UTF-8"),
    Case("mint_supply", "mint-supply", "mint_supply", {"amount": Decimal("2.5")},
         {"decimals": 9}, "decimals is 9, but the mint {mint} has 6 decimals; amounts are whole"
         " tokens, so it can be left out"),
    Case("revoke_mint_authority", "revoke-authority", "revoke_authority",
         {"authorityType": "freeze"}, {"mint": USDC}, "mint: nobody has the freeze authority of"
         f" {USDC}"),
    Case("burn_tokens", "burn", "burn", {"amount": Decimal("0.5")}, {"amount": 1001},
         "amount is more than the 1000 of {mint} the wallet holds"),
    Case("close_token_account", "close-account", "close_account", {}, {"mint": USDC},
         f"mint: the wallet has no token account of {USDC}", empty=True),
]  # fmt: skip

# An answer: whether it went well, and the text that was told.
Door = Callable[[Api, str, Case, dict[str, Any]], Awaitable[tuple[bool, str]]]


async def by_rest(api: Api, wallet: str, case: Case, body: dict[str, Any]) -> tuple[bool, str]:
    answer = await api.post(f"/wallets/{wallet}/{case.path}", body)
    if answer.status != 200:
        return False, f"{answer.status} {answer.error}"
    assert answer.json["details"].items() <= answer.json.items()
    return True, answer.text


async def by_skill(api: Api, wallet: str, case: Case, body: dict[str, Any]) -> tuple[bool, str]:
    answer = await api.post(f"/wallets/{wallet}/skills/{case.skill}", body)
    if answer.status != 200:
        return False, f"{answer.status} {answer.error}"
    return True, answer.json["result"]


async def by_agent(api: Api, wallet: str, case: Case, body: dict[str, Any]) -> tuple[bool, str]:
    params = " ".join(f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
                      for name, value in body.items())  # fmt: skip
    made = await api.post(
        "/agents", agent_body(wallet, strategy=f"always do {case.skill} {params}")
    )
    agent = made.json["id"]
    with api.service.events.subscribe() as events:
        await api.post(f"/agents/{agent}/start")
        async with asyncio.timeout(30):
            async for event in events:
                if event.event == "agent:decision" and event.data["agentId"] == agent:
                    break
    await api.post(f"/agents/{agent}/stop")
    (decision,) = await api.service.agents.decisions(agent, limit=1)
    assert decision.action is not None, decision
    return "Status: confirmed" in decision.outcome, decision.outcome


DOORS: list[Door] = [by_rest, by_skill, by_agent]


async def own_token(api: Api, wallet: str, *, empty: bool) -> str:
    """A token of the wallet's with 6 decimals, of which it holds 1000, or none."""
    body = {"name": "Demo coin", "symbol": "DEMO", "decimals": 6, "initialSupply": 1000}
    mint = str((await api.post(f"/wallets/{wallet}/launch-token", body)).json["mint"])
    if empty:
        answer = await api.post(f"/wallets/{wallet}/burn", {"mint": mint, "amount": 1000})
        assert answer.status == 200, answer.text
    return mint


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES, ids=[case.skill for case in CASES])
async def test_by_every_door_it_succeeds_is_refused_is_blocked_and_survives_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, door: Door
) -> None:
    # The airdrop, what makes the two tokens, and the one that succeeds.
    most = 1 + (4 if case.empty else 2) + 1
    given = {"max_transactions_per_minute": most}
    async with serving_api(tmp_path / "home", demo=True, **given) as api:
        wallet = await api.wallet(1)
        first = await own_token(api, wallet, empty=case.empty)
        second = await own_token(api, wallet, empty=case.empty)
        made = len(await api.records(wallet))

        well, told = await door(api, wallet, case, case.asked(first) | case.bad)
        assert not well
        assert told.removeprefix("400 ") == case.refusal.format(mint=first)
        assert len(await api.records(wallet)) == made

        async def away(*_given: Any) -> None:
            raise LedgerUnavailable(AWAY)

        with monkeypatch.context() as broken:
            broken.setattr(RpcLedger, "account", away)
            broken.setattr(RpcLedger, "rent_exempt_minimum", away)
            well, told = await door(api, wallet, case, case.asked(first))
        assert not well
        assert told.removeprefix("500 ") == AWAY
        failed = (await api.records(wallet))[0]
        assert (failed["type"], failed["status"], failed["error"]) == (case.type, "failed", AWAY)

        well, told = await door(api, wallet, case, case.asked(first))
        assert well, told
        done = (await api.records(wallet))[0]
        assert (done["type"], done["status"]) == (case.type, "confirmed")
        for shown in (done["signature"], done["details"]["mint"]):
            assert shown in told

        well, told = await door(api, wallet, case, case.asked(second))
        assert not well
        blocked = "Transaction blocked by guardrail rate_limit: "
        assert told.removeprefix("500 ").startswith(blocked)
        last = (await api.records(wallet))[0]
        assert (last["type"], last["status"]) == (case.type, "blocked")
        assert len(await api.records(wallet)) == made + 3


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("launch-token", {"symbol": "S"}, "name is required and must be a string"),
        ("launch-token", {"name": "n"}, "symbol is required and must be a string"),
        ("launch-token", {"name": 5, "symbol": "S"},
         "name must be a string of 1 to 200 characters"),
        ("launch-token", {"name": "n", "symbol": "ELEVENBYTES"},
         "symbol must be printable text of 1 to 10 bytes of UTF-8"),
        ("launch-token", {"name": "n", "symbol": "S", "decimals": 10},
         "decimals must be a whole number from 0 to 9"),
        ("launch-token", {"name": "n", "symbol": "S", "decimals": "9"},
         "decimals must be a number"),
        ("launch-token", {"name": "n", "symbol": "S", "initialSupply": 0},
         "initialSupply must be greater than 0"),
        ("launch-token", {"name": "n", "symbol": "S", "initialSupply": True},
         "initialSupply must be a number"),
        ("launch-token", {"name": "n", "symbol": "S", "initialSupply": 18446744074},
         "initialSupply is larger than the ledger can hold"),
        ("launch-token", {"name": "n", "symbol": "S", "decimals": 0, "initialSupply": 0.5},
         "initialSupply has more than 0 decimals"),
        ("mint-supply", {"amount": 1}, "mint is required and must be a string"),
        ("mint-supply", {"mint": USDC}, "amount is required and must be a number"),
        ("mint-supply", {"mint": USDC, "amount": 1, "decimals": True}, "decimals must be a number"),
        ("mint-supply", {"mint": USDC, "amount": "1"}, "amount must be a number"),
        ("burn", {"amount": 1}, "mint is required and must be a string"),
        ("burn", {"mint": USDC}, "amount is required and must be a number"),
        ("burn", {"mint": USDC, "amount": 0.0000001}, "amount has more than 6 decimals"),
        ("burn", {"mint": USDC, "amount": -1}, "amount must be greater than 0"),
        ("burn", {"mint": "NOSUCH", "amount": 1},
         "mint must be a mint address or a known symbol (SOL, USDC, BONK)"),
        ("revoke-authority", {}, "mint is required and must be a string"),
        ("revoke-authority", {"mint": USDC, "authorityType": "close"},
         "authorityType must be mint or freeze"),
        ("close-account", {}, "mint is required and must be a string"),
        ("close-account", {"mint": 1}, "mint must be a string of 1 to 200 characters"),
    ],
)  # fmt: skip
async def test_a_wrong_field_is_400_and_named(
    shared_api: Api, path: str, body: dict[str, Any], text: str
) -> None:
    wallet = await shared_api.wallet()
    answer = await shared_api.post(f"/wallets/{wallet}/{path}", body)
    assert (answer.status, answer.error) == (400, text)
    assert await shared_api.records(wallet) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_revocation_says_that_it_is_revoked_and_defaults_to_mint(shared_api: Api) -> None:
    wallet = await shared_api.wallet(1)
    mint = await own_token(shared_api, wallet, empty=False)
    answer = await shared_api.post(f"/wallets/{wallet}/revoke-authority", {"mint": mint})
    assert (answer.json["revoked"], answer.json["authorityType"]) == (True, "mint")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_launch_answers_its_token_and_is_made_once_per_key(shared_api: Api) -> None:
    wallet = await shared_api.wallet(1)
    body = {"name": "Demo coin", "symbol": "DEMO"}
    once = {"Idempotency-Key": "launch"}
    answer = await shared_api.post(f"/wallets/{wallet}/launch-token", body, headers=once)
    shown = {name: answer.json[name] for name in ("name", "symbol", "decimals", "supply")}
    assert shown == body | {"decimals": 9, "supply": 1_000_000}
    again = await shared_api.post(f"/wallets/{wallet}/launch-token", body, headers=once)
    assert (again.status, again.text) == (200, answer.text)
    balance = (await shared_api.get(f"/wallets/{wallet}/balance")).json
    (token,) = balance["tokens"]
    assert (token["mint"], token["uiBalance"]) == (answer.json["mint"], 1_000_000)
