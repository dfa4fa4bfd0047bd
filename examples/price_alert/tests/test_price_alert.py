"""price_alert at the localnet's market, whose price a large swap moves."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from price_alert import alert

from solward import InvalidRequest, SkillError
from solward.testing import TestWallet, conformance

test_it_conforms = conformance.skill_test(alert)


async def price(wallet: TestWallet) -> Decimal:
    """What one SOL costs in USDC."""
    told = await wallet.run(alert, token="SOL", below=Decimal("0.000001"))
    return Decimal(told.split(" costs ")[1].split()[0].replace(",", ""))


async def test_it_alerts_once_each_time_a_bound_is_crossed(wallet: TestWallet) -> None:
    bounds = {"token": "SOL", "below": await price(wallet) - Decimal("0.001")}
    assert "Nothing new" in await wallet.run(alert, **bounds)
    await wallet.run("swap", inputToken="SOL", outputToken="USDC", amount=2, slippageBps=1000)
    assert (await wallet.run(alert, **bounds)).startswith("ALERT: one SOL costs ")
    assert "Nothing new" in await wallet.run(alert, **bounds)
    held = (await wallet.records())[0].details["outputAmount"]
    await wallet.run("swap", inputToken="USDC", outputToken="SOL", amount=held, slippageBps=1000)
    back = await wallet.run(alert, token="SOL", below=bounds["below"])
    assert back.startswith("ALERT")
    assert back.endswith("within the bounds.")


async def test_bounds_and_wallets_have_alerts_of_their_own(wallet: TestWallet) -> None:
    other = await wallet.stand.wallet("other")
    assert "ALERT" in await wallet.run(alert, token="SOL", above=1)
    assert "ALERT" in await wallet.run(alert, token="SOL", above=2)
    assert "ALERT" in await other.run(alert, token="SOL", above=1)
    assert "Nothing new" in await wallet.run(alert, token="SOL", above=1)


async def test_of_calls_at_once_one_alerts(wallet: TestWallet) -> None:
    runs = (wallet.run(alert, token="SOL", above=1) for _ in range(5))
    answers = await asyncio.gather(*runs, return_exceptions=True)
    alerts = [each for each in answers if isinstance(each, str) and each.startswith("ALERT")]
    others = [each for each in answers if isinstance(each, SkillError)]
    assert len(alerts) == 1
    assert {each.code for each in others} <= {"store_changed"}


async def test_it_sends_nothing(wallet: TestWallet) -> None:
    await wallet.run(alert, token="SOL", above=1)
    assert await wallet.records() == []


async def test_bounds_are_asked_for(wallet: TestWallet) -> None:
    with pytest.raises(InvalidRequest, match="above or below must be given"):
        await wallet.run(alert, token="SOL")
