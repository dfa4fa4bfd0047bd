"""An approved swap brings at least what was shown, or nothing is sold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.operations.test_swap_venues import Named, more, operations
from tests.promises import promise
from tests.support.approvals import KEY, Desk, asks, guardrails
from tests.support.swaps import USDC, USDC_POOL, SwapBench, open_swaps

from solward.operations.perform import Operations
from solward.types.errors import Held
from solward.types.record import Hold, HoldState
from solward.types.venue import Quote
from solward.vault.money.outcomes import TrialEnded


@pytest.fixture
async def swaps(tmp_path: Path) -> AsyncIterator[SwapBench]:
    async with open_swaps(tmp_path, plugin_guardrails=guardrails(asks)) as opened:
        yield opened


async def held(swaps: SwapBench) -> Hold:
    with pytest.raises(Held) as raised:
        await swaps.swap("SOL", USDC, 1, actor=KEY)
    return raised.value.hold


def worse(permille: int) -> Callable[[Quote], Quote]:
    """The venue's quote, by so much less."""

    def requote(quote: Quote) -> Quote:
        out = quote.out_amount * (1000 - permille) // 1000
        return replace(quote, out_amount=out, minimum_out=-(-out * 995 // 1000))

    return requote


async def test_the_same_swap_is_one_hold_whatever_its_pocket_and_price(swaps: SwapBench) -> None:
    first = await held(swaps)
    swaps.plugin.requote = worse(10)
    assert (await held(swaps)).id == first.id
    assert first.arrives[USDC] > 0


async def test_a_dry_run_takes_no_turn_of_purchases(swaps: SwapBench) -> None:
    """No rate counts it: who may spend nothing could keep the operator out."""
    operations = swaps.operations()
    trial, wallet = replace(KEY, dry_run=True), swaps.bench.wallet.id
    swap = {"inputToken": "SOL", "outputToken": USDC, "amount": 1}
    async with asyncio.timeout(5), operations._lock_purchase(wallet, USDC):
        with pytest.raises(TrialEnded):
            await operations.perform("swap", wallet, trial, swap)


async def test_it_brings_what_was_shown_though_the_price_is_a_little_worse(
    swaps: SwapBench,
) -> None:
    desk = Desk(swaps.bench, swaps.operations())
    hold = await held(swaps)
    # Still as much as was shown, with a minimum that is below.
    swaps.plugin.requote = worse(3)
    after = await desk.approvals.approve(hold.id, "admin")
    [record] = await swaps.bench.history()
    assert (after.state, record.error) == (HoldState.EXECUTED, None)
    assert await swaps.units(USDC_POOL.mint) >= hold.arrives[USDC]


async def test_a_price_that_moved_refuses_it(swaps: SwapBench) -> None:
    desk = Desk(swaps.bench, swaps.operations())
    hold = await held(swaps)
    swaps.plugin.requote = worse(20)
    after = await desk.approvals.approve(hold.id, "admin")
    assert after.state is HoldState.REFUSED
    [record] = await swaps.bench.history()
    assert record.id == after.transaction_id
    assert record.guardrails_applied[-1] == "grants"
    assert "the price moved" in (record.error or "")
    assert await swaps.units(USDC_POOL.mint) == 0
    assert await swaps.sent() == 0


def two_venues(swaps: SwapBench) -> tuple[Operations, Named]:
    other = Named(swaps.plugin.real, requote=more("0.99"))
    return operations(swaps, swaps.plugin, other), other


@promise("approval-runs-it-again")
async def test_an_approved_swap_is_made_at_the_venue_that_was_shown(swaps: SwapBench) -> None:
    """It is one hold whichever venue offers the most by now."""
    using, other = two_venues(swaps)
    desk = Desk(swaps.bench, using)
    params = {"inputToken": "SOL", "outputToken": USDC, "amount": 1, "slippageBps": 50}
    found = []
    for best in ("0.99", "1.001"):
        other.requote = more(best)
        with pytest.raises(Held) as raised:
            await using.perform("swap", swaps.bench.wallet.id, KEY, params)
        found.append(raised.value.hold)
    assert found[0].id == found[1].id
    after = await desk.approvals.approve(found[0].id, "admin")
    [record] = await swaps.bench.history()
    assert (after.state, record.error) == (HoldState.EXECUTED, None)
    assert record.details["venue"] == "jupiter"
    assert other.takers
    assert await swaps.units(USDC_POOL.mint) >= found[0].arrives[USDC]


async def test_an_approved_swap_at_a_venue_that_is_gone_is_refused(swaps: SwapBench) -> None:
    using, other = two_venues(swaps)
    desk = Desk(swaps.bench, using)
    params = {"inputToken": "SOL", "outputToken": USDC, "amount": 1, "slippageBps": 50}
    other.requote = more("1.001")
    with pytest.raises(Held) as raised:
        await using.perform("swap", swaps.bench.wallet.id, KEY, params)
    using.use_venues([swaps.venue])
    after = await desk.approvals.approve(raised.value.hold.id, "admin")
    assert after.state is HoldState.REFUSED
    [record] = await swaps.bench.history()
    assert "No swap venue 'other' is loaded" in (record.error or "")
    assert await swaps.sent() == 0
