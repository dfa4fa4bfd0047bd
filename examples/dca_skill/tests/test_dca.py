"""dca at the localnet's market."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal

import pytest
from dca_skill import dca

from solward import GuardrailBlocked, InvalidRequest, TransactionStatus
from solward.testing import TestWallet, conformance

test_it_conforms = conformance.skill_test(dca)

DAY = 24 * 3_600
PLAN = {"buy": "USDC", "amount": Decimal("0.1")}


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the day that the skill takes it for."""

    def set_day(day: float) -> None:
        monkeypatch.setattr(dca.time, "time", lambda: day * DAY)

    return set_day


async def bought(wallet: TestWallet) -> int:
    """How many swaps landed."""
    records = await wallet.records()
    return sum(each.status is TransactionStatus.CONFIRMED for each in records)


async def test_it_buys_once_a_period(wallet: TestWallet, at: Callable[[float], None]) -> None:
    at(100)
    assert "Purchases so far: 1." in await wallet.run(dca, **PLAN)
    at(100.9)
    assert "for this period already" in await wallet.run(dca, **PLAN)
    assert await bought(wallet) == 1
    at(101)
    assert "Purchases so far: 2." in await wallet.run(dca, **PLAN)
    # A clock that is set back buys nothing again.
    at(99)
    assert "for this period already" in await wallet.run(dca, **PLAN)
    assert await bought(wallet) == 2


async def test_of_calls_at_once_one_buys(wallet: TestWallet, at: Callable[[float], None]) -> None:
    at(100)
    answers = await asyncio.gather(*(wallet.run(dca, **PLAN) for _ in range(4)))
    assert sum(each.startswith("Bought") and "so far" in each for each in answers) == 1
    assert await bought(wallet) == 1


async def test_plans_are_separate_whatever_their_tokens_are_called(
    wallet: TestWallet, at: Callable[[float], None]
) -> None:
    at(100)
    await wallet.run(dca, **PLAN)
    mint = (await wallet.records())[0].details["outputToken"]
    assert "already" in await wallet.run(dca, buy=mint, amount=Decimal("0.1"))
    assert "so far: 1." in await wallet.run(dca, buy="BONK", amount=Decimal("0.1"))
    assert "so far: 2." in await wallet.run(dca, **PLAN, everyHours=1)


async def test_wallets_are_separate(wallet: TestWallet, at: Callable[[float], None]) -> None:
    at(100)
    other = await wallet.stand.wallet("other")
    for each in (wallet, other):
        assert "so far: 1." in await each.run(dca, **PLAN)


async def test_a_refused_purchase_is_made_once_it_may_be(
    wallet: TestWallet, at: Callable[[float], None]
) -> None:
    at(100)
    await wallet.stand.service.switches.freeze(wallet.id)
    with pytest.raises(GuardrailBlocked):
        await wallet.run(dca, **PLAN)
    await wallet.stand.service.switches.thaw(wallet.id)
    assert "so far: 1." in await wallet.run(dca, **PLAN)


async def test_an_unknown_token_is_named(wallet: TestWallet) -> None:
    with pytest.raises(InvalidRequest, match="buy must be a mint address"):
        await wallet.run(dca, buy="NOPE", amount=1)
