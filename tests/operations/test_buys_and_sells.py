"""Buys and sells by turns: each counter is what left, to the unit, and none is ever negative."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from solders.transaction import VersionedTransaction
from sqlalchemy import func, select
from tests.promises import promise
from tests.support.engine import front_run, put_accounts
from tests.support.programs import takes_tokens_of
from tests.support.swaps import (
    FEE,
    RENT,
    SOL,
    USDC,
    USDC_POOL,
    SwapBench,
    ata,
    open_swaps,
    swaps,
    whole,
)

from solward.database.tables import attempts, reservations
from solward.support.clock import now_ms
from solward.types.errors import GuardrailBlocked, LedgerRejected, TransactionFailed
from solward.types.record import TransactionStatus
from solward.vault.guardrails import ScopeLimits
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.ledger import client
from solward.vault.money.request import Actor
from solward.vault.store import spending
from solward.vault.store.spending import COSTS_ASSET, SOL_ASSET
from solward_localnet.market_program import MARKET_PROGRAM, program_account, program_file

__all__ = ["swaps"]

FIRST = SOL
# One in so many meets a market that takes its input and pays nothing when it lands.
ROBBED = 25
THIEF = takes_tokens_of(program=0, authority=1, source=2, thief=6)


async def counters(swaps: SwapBench, scope: str) -> dict[str, int]:
    async with swaps.bench.database.read() as connection:
        least = await connection.scalar(select(func.min(reservations.c.units)))
        used = (await spending.usage(connection, [scope], [USDC], now_ms()))[scope]
    assert least is None or least >= 0
    units = used.units_last_day
    return {asset: units.get(asset, 0) for asset in (SOL_ASSET, USDC, COSTS_ASSET)}


async def upgrade(swaps: SwapBench, file: bytes) -> None:
    await put_accounts(swaps.bench, {MARKET_PROGRAM: program_account(file)})


async def swap(
    swaps: SwapBench, actor: Actor, sold: str, units: int, *, robbed: bool = False
) -> bool:
    """Whether it went through; the market is as it was afterwards."""
    bought, decimals = ("USDC", 9) if sold == "SOL" else ("SOL", 6)
    amount = whole(units, decimals)
    if not robbed:
        record = await swaps.swap(sold, bought, amount, actor=actor)
        return record.status is TransactionStatus.CONFIRMED
    async with front_run(swaps.bench, lambda: upgrade(swaps, THIEF.file())):
        with pytest.raises(TransactionFailed, match="failed on the ledger"):
            await swaps.swap(sold, bought, amount, actor=actor)
    await upgrade(swaps, program_file())
    return False


@pytest.mark.parametrize(
    "count",
    [
        30,
        pytest.param(500, marks=[pytest.mark.more, pytest.mark.timeout(600)]),
        pytest.param(1_000, marks=[pytest.mark.long, pytest.mark.timeout(1_200)]),
    ],
)
async def test_buys_and_sells_by_turns_count_what_left_and_meet_the_limits_exactly(
    tmp_path: Path, count: int
) -> None:
    chance = Random(count)
    planned = [
        ("SOL", chance.randrange(5_000_000, 12_000_000))
        if at % 2 == 0
        else ("USDC", chance.randrange(500_000, 1_200_000))
        for at in range(count)
    ]
    robbed = {at for at in range(count) if at % ROBBED == ROBBED // 2}
    paid = [each for at, each in enumerate(planned) if at not in robbed]
    sol, usdc = (sum(units for sold, units in paid if sold == name) for name in ("SOL", "USDC"))
    # Room for exactly this, and for what is held while the last of each is on its way.
    wallet = ScopeLimits(daily_lamports=FIRST + sol)
    key = ScopeLimits(daily_tokens={USDC: usdc})
    actor = Actor("key:bound", limits=(("key:bound", key),))
    async with open_swaps(tmp_path, sol=50, limits=wallet) as swaps:
        scope = f"wallet:{swaps.bench.wallet.id}"
        await swaps.swap("SOL", "USDC", whole(FIRST, 9), actor=actor)
        want = {SOL_ASSET: FIRST, USDC: 0, COSTS_ASSET: FEE + RENT}
        before = await swaps.lamports()
        for at, (sold, units) in enumerate(planned):
            if await swap(swaps, actor, sold, units, robbed=at in robbed):
                want[SOL_ASSET if sold == "SOL" else USDC] += units
            # The pocket's accounts are closed again in the transaction itself.
            want[COSTS_ASSET] += FEE
            assert await counters(swaps, scope) == want, at
            assert await counters(swaps, "key:bound") == want, at

        assert (want[SOL_ASSET], want[USDC]) == (FIRST + sol, usdc)
        history = await swaps.bench.history()
        gained = sum(
            int(record.details["outputAmount"].scaleb(9))
            for record in history
            if record.status is TransactionStatus.CONFIRMED and record.details["inputToken"] == USDC
        )
        if len(history) < 500:
            assert await swaps.lamports() == before - sol - count * FEE + gained

        # Not one unit more of either.
        for sold, least, rule in (
            ("SOL", 1_000_000, "daily_limit"),
            ("USDC", 100_000, "spending_limit_check"),
        ):
            with pytest.raises(GuardrailBlocked) as caught:
                await swap(swaps, actor, sold, least)
            assert caught.value.rule == rule
        await every_signature_is_bounded(swaps)


async def every_signature_is_bounded(swaps: SwapBench) -> None:
    async with swaps.bench.database.read() as connection:
        wires = (await connection.execute(select(attempts.c.wire))).scalars().all()
    for wire in wires:
        bound = worst_case(VersionedTransaction.from_bytes(bytes(wire)).message, swaps.address)
        assert bound.fee_lamports == FEE
        assert (bound.lamports > 0) != bool(bound.tokens)


@promise("swap-minimum-asserted")
@pytest.mark.parametrize("ends", [False, True])
async def test_no_purchase_is_based_on_what_was_there_before_another_one(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """A node that lags shows what the account held before the last purchase. On that a market that
    takes everything would have brought enough."""
    monkeypatch.setattr(client, "_BEHIND_S", 0.2)
    await swaps.swap("SOL", "USDC", 1)
    wire, account = swaps.bench.wire, str(ata(swaps.user, USDC_POOL.mint))
    options = {"commitment": "confirmed", "encoding": "base64"}
    before = await wire.direct("getAccountInfo", [account, options])
    slot = before["context"]["slot"]

    async def late(method: str, params: Sequence[Any]) -> Any:
        if params[-1].get("minContextSlot", 0) > slot:
            raise LedgerRejected(-32016, "Minimum context slot has not been reached")
        answer = await wire.direct(method, params)
        if params[0] == account:
            return before
        if method == "getMultipleAccounts":
            places = [number for number, each in enumerate(params[0]) if each == account]
            for place in places:
                answer["value"][place] = before["value"]
        return answer

    await swaps.bench.localnet.advance_slots(2)
    await swaps.swap("SOL", "USDC", 1)
    held = await swaps.units(USDC_POOL.mint)
    swaps.bench.engine._assessor.blockhashes.forget()
    late_methods = ("getAccountInfo", "getMultipleAccounts", "simulateTransaction")
    for method in (*late_methods, "getLatestBlockhash"):
        wire.faults[method] = late
    if ends:
        # What no node ever reaches was a lie, and stops no purchase for ever.
        monkeypatch.setattr(client, "_LIE_S", 0.0)
        assert (await swaps.swap("SOL", "USDC", 1)).status is TransactionStatus.CONFIRMED
        return
    with pytest.raises(TransactionFailed, match="have not reached what landed"):
        async with front_run(swaps.bench, lambda: upgrade(swaps, THIEF.file())):
            await swaps.swap("SOL", "USDC", 1)
    wire.faults.clear()
    assert await swaps.units(USDC_POOL.mint) == held
