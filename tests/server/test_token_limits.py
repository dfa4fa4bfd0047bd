"""`TOKEN_LIMITS`: a mint's day binds whoever moves it, however it is moved, all at once too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.clock import until
from tests.support.services import Api, serving_api

USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
LIMIT = 50_000_000  # 50 USDC, which has 6 decimals
BLOCKED = (
    "Transaction blocked by guardrail daily_limit: {asked} tokens of mint {mint} are more than the"
    " {left} left of the {limit} allowed in 24 hours; {spent} are spent or reserved"
    " (limit of the wallet)"
)


@asynccontextmanager
async def holding_usdc(tmp_path: Path, **given: Any) -> AsyncIterator[tuple[Api, str]]:
    """A wallet that may sell 50 USDC a day and holds more than 200."""
    opened = {"token_limits": {USDC: LIMIT}, "max_transactions_per_minute": 1_000, **given}
    async with serving_api(tmp_path / "home", **opened) as api:
        wallet = await api.wallet(2)
        body = {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("1.5")}
        assert (await api.post(f"/wallets/{wallet}/swap", body)).status == 200
        yield api, wallet


async def sell(api: Api, wallet: str, amount: Any, **query: Any) -> Any:
    body = {"inputToken": "USDC", "outputToken": "SOL", "amount": amount, "slippageBps": 500}
    return await api.post(f"/wallets/{wallet}/swap", body, **query)


async def day(api: Api, wallet: str) -> dict[str, str]:
    """The mint's day as `GET /wallets/:id/limits` shows it."""
    limits = (await api.get(f"/wallets/{wallet}/limits")).json
    shown: dict[str, str] = limits["dailyTokens"][USDC]
    return shown


async def held(api: Api, wallet: str) -> Decimal:
    balance = (await api.get(f"/wallets/{wallet}/balance")).json
    return sum((token["uiBalance"] for token in balance["tokens"] if token["mint"] == USDC),
               Decimal(0))  # fmt: skip


@promise("sales-count-by-asset")
async def test_the_swap_beyond_the_day_is_refused_and_told_what_is_left(tmp_path: Path) -> None:
    async with holding_usdc(tmp_path) as (api, wallet):
        assert await day(api, wallet) == {
            "limit": "50000000", "spent": "0", "reserved": "0", "left": "50000000"
        }  # fmt: skip
        assert (await sell(api, wallet, 30)).status == 200
        answer = await sell(api, wallet, Decimal("20.000001"))
        assert answer.status == 500
        assert answer.error == BLOCKED.format(
            asked="20.000001", mint=USDC, left=20, limit=50, spent=30
        )
        assert await day(api, wallet) == {
            "limit": "50000000", "spent": "30000000", "reserved": "0", "left": "20000000"
        }  # fmt: skip
        assert (await sell(api, wallet, 20)).status == 200
        answer = await sell(api, wallet, Decimal("0.02"))
        assert answer.error == BLOCKED.format(asked="0.02", mint=USDC, left=0, limit=50, spent=50)
        records = await api.records(wallet)
        assert [r["status"] for r in records[:4]] == ["blocked", "confirmed", "blocked",
                                                      "confirmed"]  # fmt: skip
        assert records[0]["guardrailsApplied"][-1] == "daily_limit"


@promise("burns-count-by-mint")
async def test_a_skill_and_a_burn_and_a_dry_run_meet_the_same_day(tmp_path: Path) -> None:
    async with holding_usdc(tmp_path) as (api, wallet):
        assert (await sell(api, wallet, 45)).status == 200
        refused = BLOCKED.format(asked=6, mint=USDC, left=5, limit=50, spent=45)
        burn = await api.post(f"/wallets/{wallet}/burn", {"mint": "USDC", "amount": 6})
        assert (burn.status, burn.error) == (500, refused)
        params = {"inputToken": "USDC", "outputToken": "SOL", "amount": 6}
        by_skill = await api.post(f"/wallets/{wallet}/skills/swap", params)
        assert (by_skill.status, by_skill.error) == (500, refused)
        body = {"mint": "USDC", "amount": 6}
        tried = (await api.post(f"/wallets/{wallet}/burn?dryRun=true", body)).json
        assert (tried["allowed"], tried["rule"]) == (False, "daily_limit")
        assert refused.endswith(tried["reason"])
        # SOL is not the mint's: it has its own limits.
        sol = {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.01")}
        assert (await api.post(f"/wallets/{wallet}/swap", sol)).status == 200
        assert (await api.post(f"/wallets/{wallet}/burn", body | {"amount": 5})).status == 200
        assert (await day(api, wallet))["left"] == "0"


async def test_a_limit_of_nothing_lets_nothing_go(tmp_path: Path) -> None:
    async with holding_usdc(tmp_path, token_limits={USDC: 0}) as (api, wallet):
        answer = await sell(api, wallet, 1)
        assert answer.error == BLOCKED.format(asked=1, mint=USDC, left=0, limit=0, spent=0)


@pytest.mark.more
@promise("token-limits", "day-is-limited")
async def test_20_swaps_at_once_take_the_day_and_no_unit_more(tmp_path: Path) -> None:
    # Rent of the accounts on the way counts until each has landed.
    costs = {"max_costs_sol_per_day": Decimal(1)}
    async with holding_usdc(tmp_path, **costs) as (api, wallet):
        before = await held(api, wallet)
        answers = await asyncio.gather(*(sell(api, wallet, 4) for _ in range(20)))
        accepted = [answer for answer in answers if answer.status == 200]
        records = await api.records(wallet)
        told = Counter(record["status"] for record in records)
        # 12 times 4 are 48; the last 2 are too few for a thirteenth.
        assert len(accepted) == 12, Counter(a.text for a in answers)
        assert told == {"confirmed": 14, "blocked": 8}
        for answer in answers:
            if answer.status != 200:
                assert "guardrail daily_limit" in answer.error
                assert "2 left of the 50 allowed" in answer.error
        assert before - await held(api, wallet) == 48
        assert await day(api, wallet) == {
            "limit": "50000000", "spent": "48000000", "reserved": "0", "left": "2000000"
        }  # fmt: skip


async def test_what_is_on_its_way_is_reserved_in_tokens_and_a_failure_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding_usdc(tmp_path) as (api, wallet):
        go_on = asyncio.Event()

        async def held_up(wallet_id: str) -> Any:
            await go_on.wait()
            raise RuntimeError("no key")

        monkeypatch.setattr(type(api.service.wallets), "signer",
                            lambda _self, wallet_id: held_up(wallet_id))  # fmt: skip
        asked = asyncio.create_task(sell(api, wallet, 40))

        async def reserved() -> bool:
            return (await day(api, wallet))["reserved"] == "40000000"

        await until(reserved)
        assert await day(api, wallet) == {
            "limit": "50000000", "spent": "0", "reserved": "40000000", "left": "10000000"
        }  # fmt: skip
        refused = await sell(api, wallet, 11)
        assert refused.error == BLOCKED.format(asked=11, mint=USDC, left=10, limit=50, spent=40)
        go_on.set()
        assert (await asked).status == 500
        assert (await day(api, wallet))["left"] == "50000000"
        monkeypatch.undo()
        assert (await sell(api, wallet, 50)).status == 200
