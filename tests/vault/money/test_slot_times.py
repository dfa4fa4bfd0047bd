"""Clusters of several slot times, on a clock that is stepped: height decides every end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import Bench, fast_slots, open_bench
from tests.support.localnet import StillClock
from tests.vault.money.handed_payments import PRICE, Shop, open_shop
from tests.vault.money.test_fates import swallows
from tests.vault.money.test_handed_over_fates import hides

from solward.database.tables import attempts
from solward.operations.payments.pay import ANSWER_MARGIN_S, answer_wait_s
from solward.solana.protocol import BLOCKHASH_BLOCKS
from solward.types.errors import TransactionFailed
from solward.types.payment import PaymentMode
from solward.types.record import TransactionStatus
from solward.vault.ledger.client import Ledger
from solward.vault.money.engine import CONFIRM_MARGIN_S, confirm_wait_s
from solward.vault.money.request import ADMIN
from solward.vault.money.send.polling import LATER_POLLS

HALF = Decimal("0.5")
SLOT_TIMES = [400, 300, 200, 150]
FINALITIES = ["alpenglow", "tower", "finalized"]


def options(clock: StillClock, slot_ms: int, finality: str = "alpenglow") -> dict[str, Any]:
    """Of a localnet whose slots pass only as the clock is stepped."""
    return {"clock": clock, "slot_ms": slot_ms, "ticker": False, "finality": finality}


async def last_height(bench: Bench) -> int:
    """The last block of the only attempt."""
    async with bench.database.read() as connection:
        found = await connection.execute(select(attempts.c.last_valid_block_height))
        return int(found.scalar_one())


async def polled(bench: Bench, method: str = "getBlockHeight", times: int = 4) -> None:
    """Wait until the ledger was asked again some times."""
    wanted = bench.wire.calls[method] + times
    await until(lambda: bench.wire.calls[method] >= wanted)


async def height(bench: Bench) -> int:
    return int(await bench.wire.direct("getBlockHeight", []))


@asynccontextmanager
async def swallowed(
    tmp_path: Path, slot_ms: int, finality: str
) -> AsyncIterator[tuple[Bench, StillClock, asyncio.Task[Any]]]:
    """A payment that a node takes and sends nowhere, and the clock."""
    clock = StillClock()
    async with open_bench(tmp_path, localnet_options=options(clock, slot_ms, finality)) as bench:
        clock.now_ms += 60_000
        await bench.ledger.look()
        assert bench.ledger.slot_s == pytest.approx(slot_ms / 1000)
        fast_slots(bench.ledger)
        bench.wire.faults["sendTransaction"] = swallows
        work = bench.engine.execute(bench.wallet.id, ADMIN, bench.draft(HALF))
        paying = asyncio.create_task(work)
        await until(lambda: bench.wire.calls["sendTransaction"] > 0)
        yield bench, clock, paying


@promise("slot-times-lose-nothing")
@pytest.mark.parametrize("finality", FINALITIES)
@pytest.mark.parametrize("slot_ms", SLOT_TIMES)
async def test_a_payment_that_lands_in_its_last_block_is_not_lost(
    tmp_path: Path, slot_ms: int, finality: str
) -> None:
    async with swallowed(tmp_path, slot_ms, finality) as (bench, clock, paying):
        left = await last_height(bench) - 1 - await height(bench)
        assert left >= BLOCKHASH_BLOCKS - 1
        for step in (left // 2, left - left // 2):
            clock.slots(step, slot_ms)
            await polled(bench)
            [record] = await bench.history()
            assert record.status is TransactionStatus.PENDING
        del bench.wire.faults["sendTransaction"]
        record = await paying
        assert record.status is TransactionStatus.CONFIRMED
        assert await bench.lamports(bench.recipient) == 5 * 10**8


@promise("slot-times-lose-nothing")
@pytest.mark.parametrize("finality", FINALITIES)
@pytest.mark.parametrize("slot_ms", SLOT_TIMES)
async def test_a_payment_that_never_lands_is_dead_once_its_last_block_has_passed(
    tmp_path: Path, slot_ms: int, finality: str
) -> None:
    async with swallowed(tmp_path, slot_ms, finality) as (bench, clock, paying):
        clock.slots(await last_height(bench) - await height(bench), slot_ms)
        await polled(bench)
        assert not paying.done()
        clock.slots(1, slot_ms)
        with pytest.raises(TransactionFailed, match="expired"):
            await paying
        assert await bench.lamports(bench.recipient) == 0
        assert await bench.reserved_units() == 0


@asynccontextmanager
async def stepped_shop(
    tmp_path: Path, slot_ms: int, finality: str = "alpenglow"
) -> AsyncIterator[tuple[Shop, StillClock]]:
    clock = StillClock()
    async with open_shop(tmp_path, localnet_options=options(clock, slot_ms, finality)) as shop:
        fast_slots(shop.bench.ledger)
        yield shop, clock


@promise("slot-times-lose-nothing")
@pytest.mark.parametrize("mode", [PaymentMode.SPONSORED, PaymentMode.UNSPONSORED])
@pytest.mark.parametrize("slot_ms", SLOT_TIMES)
async def test_what_was_handed_over_is_alive_until_its_last_block(
    tmp_path: Path, slot_ms: int, mode: PaymentMode
) -> None:
    async with stepped_shop(tmp_path, slot_ms) as (shop, clock):
        bench = shop.bench
        handed = await shop.hand_over(mode=mode)
        clock.slots(await last_height(bench) - 1 - await height(bench), slot_ms)
        await polled(bench)
        assert (await bench.history())[0].status is TransactionStatus.PENDING
        assert handed.wire is not None
        sponsored = mode is PaymentMode.SPONSORED
        await shop.send(shop.signed(handed.wire) if sponsored else shop.as_it_is(handed.wire))
        assert (await shop.ended(handed)).status is TransactionStatus.CONFIRMED
        assert await shop.received() == PRICE


@promise("handed-over-polled-thrice")
@pytest.mark.parametrize("slot_ms", SLOT_TIMES)
async def test_what_was_handed_over_and_shows_late_is_not_dead(
    tmp_path: Path, slot_ms: int
) -> None:
    """A node shows its history late, and what it took of the account has come back meanwhile."""
    async with stepped_shop(tmp_path, slot_ms) as (shop, clock):
        bench = shop.bench
        hidden = 0

        async def late(method: str, params: Sequence[Any]) -> Any:
            nonlocal hidden
            expired = await height(bench) > last
            hidden += expired
            # Looks and proofs read the history, a proof twice.
            return await hides(method, params) if not expired or hidden <= 2 else None

        last = 2**62
        bench.wire.faults["getSignaturesForAddress"] = late
        handed = await shop.hand_over()
        await shop.settle(handed)
        await shop.tokens.fund(shop.mint, PRICE)
        last = await last_height(bench)
        clock.slots(last + 1 - await height(bench), slot_ms)
        record = await shop.ended(handed)
        assert record.status is TransactionStatus.CONFIRMED
        assert await shop.counted() == PRICE


@promise("handed-over-polled-thrice")
@pytest.mark.parametrize("mode", [PaymentMode.SPONSORED, PaymentMode.UNSPONSORED])
async def test_it_is_dead_after_three_polls_past_its_last_block(
    tmp_path: Path, mode: PaymentMode
) -> None:
    async with stepped_shop(tmp_path, 200) as (shop, clock):
        bench = shop.bench
        handed = await shop.hand_over(mode=mode)
        bench.wire.calls.clear()
        clock.slots(await last_height(bench) + 2 - await height(bench), 200)
        assert (await shop.ended(handed)).status is TransactionStatus.FAILED
        assert await shop.counted() == 0
        # Of each proof, once.
        assert bench.wire.calls["getFirstAvailableBlock"] == LATER_POLLS


@pytest.mark.parametrize("slot_ms", SLOT_TIMES)
async def test_the_end_of_bytes_is_waited_for_as_long_as_they_can_live(
    bench: Bench, slot_ms: int
) -> None:
    ledger = Ledger(bench.wire)
    fast_slots(ledger, slot_ms / 1000)
    lives_s = BLOCKHASH_BLOCKS * slot_ms / 1000
    assert answer_wait_s(ledger.slot_s) == pytest.approx(min(40, lives_s + ANSWER_MARGIN_S))
    assert confirm_wait_s(ledger.slot_s) == pytest.approx(min(45, lives_s + CONFIRM_MARGIN_S))
