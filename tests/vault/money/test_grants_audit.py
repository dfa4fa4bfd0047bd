"""What would take more than a grant says: by what comes back, and by what others left behind."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.engine import Bench
from tests.support.grants import grant, limit
from tests.support.swaps import (
    BONK_MAKER,
    BONK_POOL,
    MAKER,
    USDC,
    USDC_POOL,
    SwapBench,
    pay,
    pay_sol,
)
from tests.vault.money.test_grants_engine import AGENT, KEY, UNITS, actor, counted, under
from tests.vault.money.test_pocket_run import paying, row_of, use

from solward.operations.policies.changes import replace_set
from solward.types.errors import GuardrailBlocked, Held
from solward.types.guardrail import COSTS, Operation
from solward.vault.grants.model import NewRecipient
from solward.vault.money.request import ADMIN

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
    made = grant(AGENT, [Operation.SWAP], costs=15_000_000, **{USDC: limit(USDC, 10 * UNITS)})
    await under(bench, made)
    keeps_what_it_is_lent(swaps)
    before = await swaps.lamports()
    await swaps.swap("USDC", "BONK", Decimal(1), actor=actor())
    assert before - await swaps.lamports() >= KEPT
    assert await counted(bench, made, COSTS) >= KEPT
    # A grant that is written anew starts with it, too.
    anew = grant(AGENT, [Operation.SWAP], costs=15_000_001, **{USDC: limit(USDC, 10 * UNITS)})
    await under(bench, anew)
    assert await counted(bench, anew, COSTS) >= KEPT
    with pytest.raises(GuardrailBlocked, match="fees and rent left in 24 hours"):
        await swaps.swap("USDC", "BONK", Decimal(1), actor=actor())


@promise("position-has-one-owner")
async def test_a_position_is_of_who_opened_it(bench: Bench) -> None:
    put, small = 2_000_000_000, 1_000_000
    named: dict[str, Any] = {"program": str(Keypair().pubkey()), "position": "p", "stays": True}
    thief = Keypair().pubkey()
    await use(bench, paying(Keypair().pubkey(), 1_000_000), actor(AGENT), lamports=put, **named)
    address = (await row_of(bench)).address
    await replace_set(bench.database, KEY, [grant(KEY, SOL=limit("SOL", small))])
    for other in (actor(KEY), actor("agent:other"), replace(actor(KEY), via=("skill:x",))):
        with pytest.raises(GuardrailBlocked, match="position"):
            await use(bench, paying(thief, put // 2), other, lamports=small, **named)
    assert await bench.lamports(str(thief)) == 0
    assert await bench.lamports(address) > put // 2
    # Who opened it goes on, and so does the operator; it stays whose it is.
    await use(bench, paying(Keypair().pubkey(), 1_000_000), actor(AGENT), lamports=10_000, **named)
    await use(bench, paying(Keypair().pubkey(), 1_000_000), ADMIN, lamports=10_000, **named)
    await bench.engine.sweep_pocket(bench.wallet.id, ADMIN, address)
    with pytest.raises(GuardrailBlocked, match="position"):
        await use(bench, paying(thief, 1_000), actor(KEY), lamports=small, **named)
    await use(bench, paying(Keypair().pubkey(), 1_000_000), actor(AGENT), lamports=put, **named)


async def test_a_positions_pocket_is_somebody_new_each_time(bench: Bench) -> None:
    """Whom a call pays nobody knows before: that its pocket was filled once says nothing."""
    named: dict[str, Any] = {"program": str(Keypair().pubkey()), "position": "p", "stays": True}
    build = paying(Keypair().pubkey(), 1_000_000)
    await use(bench, build, actor(AGENT), **named)
    await under(bench, grant(AGENT, SOL=limit("SOL", 10**9), new=NewRecipient.HOLD))
    with pytest.raises(Held):
        await use(bench, build, actor(AGENT), **named)
