"""What would take more than a grant says: by what comes back, and by what others left behind."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.support.grants import grant, limit
from tests.support.swap import (
    BONK_MAKER,
    BONK_POOL,
    MAKER,
    USDC,
    USDC_POOL,
    SwapBench,
    pay,
    pay_sol,
)
from tests.vault.transactions.test_grants_engine import AGENT, UNITS, actor, counted, under

from solward.errors import GuardrailBlocked
from solward.guardrail import Operation
from solward.vault.guardrails.grants.model import COSTS

KEPT = 5_000_000


def keeps_what_it_is_lent(swaps: SwapBench) -> None:
    """A venue that trades as quoted, and keeps the SOL that the pocket got for fee and rent."""
    swaps.answer(
        lambda quote, user: [
            pay(USDC_POOL.mint, 6, user, MAKER.pubkey(), quote.in_amount),
            pay(BONK_POOL.mint, 5, BONK_MAKER.pubkey(), swaps.user, quote.out_amount),
            pay_sol(user, MAKER.pubkey(), KEPT),
        ],
        BONK_MAKER,
    )


async def test_what_a_venue_keeps_of_a_swaps_loan_stays_counted_as_costs(swaps: SwapBench) -> None:
    bench = swaps.bench
    await swaps.swap("SOL", "USDC", Decimal(1))
    await swaps.swap("SOL", "BONK", Decimal("0.1"))
    made = grant(AGENT, [Operation.SWAP], costs=10_000_000, **{USDC: limit(USDC, 10 * UNITS)})
    await under(bench, made)
    keeps_what_it_is_lent(swaps)
    before = await swaps.lamports()
    await swaps.swap("USDC", "BONK", Decimal(1), actor=actor())
    assert before - await swaps.lamports() >= KEPT
    assert await counted(bench, made, COSTS) >= KEPT
    # A grant that is written anew starts with it, too.
    anew = grant(AGENT, [Operation.SWAP], costs=10_000_001, **{USDC: limit(USDC, 10 * UNITS)})
    await under(bench, anew)
    assert await counted(bench, anew, COSTS) >= KEPT
    with pytest.raises(GuardrailBlocked, match="fees and rent left in 24 hours"):
        await swaps.swap("USDC", "BONK", Decimal(1), actor=actor())
