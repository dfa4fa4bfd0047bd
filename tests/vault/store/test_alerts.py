"""Alerts: once for what made them true, on record, in the log and counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs
from tests.support.database import permit_changes_of_ended_records
from tests.support.engine import LIMITS, UNLIMITED, Bench, open_bench

from solward.audit.alerts import BLOCKS, BLOCKS_WITHIN_MS, reaches_threshold
from solward.database.tables import attempts, audit, reservations, transactions
from solward.support import jsontext
from solward.support.durations import DAY_MS
from solward.telemetry import metrics
from solward.types.errors import GuardrailBlocked, StoreError
from solward.types.record import TransactionStatus
from solward.vault.store import attempts as attempt_store

SPAN = BLOCKS_WITHIN_MS
STEP = SPAN // 10


@pytest.mark.parametrize(
    ("ages", "told"),
    [
        ([], False),
        ([0], False),
        ([0] * (BLOCKS - 1), False),
        ([0] * BLOCKS, True),
        ([0] * (BLOCKS + 1), False),
        ([0, 1, 2, 3, SPAN - 1], True),
        ([0, 1, 2, 3, SPAN], False),
        # A slow row never had five within the time; then it has.
        ([0, 1, 2, 3, 4, 4 + SPAN - 1, 4 + 2 * (SPAN - 1)], True),
        # Told at its fifth, the row goes on: steadily, and with five more.
        ([STEP * each for each in range(9)], False),
        ([0, 1, 2, 3, 4, 4 + STEP, 5 + STEP, 6 + STEP, 7 + STEP, 8 + STEP], False),
        # After a quiet time it is another row.
        ([0, 1, 2, 3, 4, *(4 + SPAN + each for each in range(5))], True),
        ([0, *(SPAN + each for each in range(5))], False),
    ],
)
def test_a_row_of_blocks_is_told_once(ages: list[int], told: bool) -> None:
    now = 1_800_000_000_000
    assert reaches_threshold([now - age for age in ages]) is told


async def alerts(bench: Bench) -> list[Any]:
    """The data of each alert in the audit log, oldest first."""
    query = select(audit.c.data).where(audit.c.event == "alert:raised").order_by(audit.c.seq)
    async with bench.database.read() as connection:
        return [jsontext.loads(text) for text in (await connection.execute(query)).scalars()]


def raised(alert: str) -> float:
    return metrics.REGISTRY.get_sample_value("solward_alerts_total", {"alert": alert}) or 0


async def blocked(bench: Bench, times: int) -> str:
    for _ in range(times):
        with pytest.raises(GuardrailBlocked) as caught:
            await bench.transfer(3)
    return caught.value.record.id


async def test_five_blocks_of_a_wallet_are_told_when_the_fifth_is_stored(tmp_path: Path) -> None:
    before = raised("repeated_blocks")
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        await blocked(bench, BLOCKS - 1)
        await bench.transfer(1)
        assert await alerts(bench) == []
        with capture_logs() as logs:
            fifth = await blocked(bench, 1)
        [told] = await alerts(bench)
        assert told == {
            "alert": "repeated_blocks",
            "walletId": bench.wallet.id,
            "transactionId": fifth,
            "principal": "admin",
            "detail": told["detail"],
        }
        assert "5 transactions blocked within 10 minutes" in told["detail"]
        assert "2 SOL allowed per transaction" in told["detail"]
        [line] = [line for line in logs if line["event"] == "alert_raised"]
        assert (line["log_level"], line["transactionId"]) == ("error", fifth)
        await blocked(bench, 3)
        assert len(await alerts(bench)) == 1
        assert raised("repeated_blocks") == before + 1
        # A quiet time later it is told again.
        await permit_changes_of_ended_records(bench.database)
        async with bench.database.write() as connection:
            earlier = transactions.c.created_ms - 2 * BLOCKS_WITHIN_MS
            await connection.execute(update(transactions).values(created_ms=earlier))
        await blocked(bench, BLOCKS)
        assert len(await alerts(bench)) == 2


async def test_blocks_of_several_wallets_are_not_added_up(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        await blocked(bench, BLOCKS - 1)
        bench.wallet = await bench.wallets.create("other")
        await blocked(bench, BLOCKS - 1)
        assert await alerts(bench) == []


async def test_transfers_that_are_near_the_ceiling_at_once_are_told_once(
    tmp_path: Path,
) -> None:
    limits = replace(UNLIMITED, daily_costs_lamports=10 * 5_000)
    async with open_bench(tmp_path, limits=limits) as bench:
        await asyncio.gather(
            *(bench.transfer(Decimal("0.1"), to=str(Keypair().pubkey())) for _ in range(9))
        )
        assert len(await alerts(bench)) == 1
        await asyncio.gather(
            *(bench.transfer(Decimal("0.1"), to=str(Keypair().pubkey())) for _ in range(1))
        )
        assert len(await alerts(bench)) == 1


async def test_an_alert_whose_reservation_was_not_stored_is_told_with_the_next(
    tmp_path: Path,
) -> None:
    limits = replace(UNLIMITED, daily_costs_lamports=5 * 5_000)
    async with open_bench(tmp_path, limits=limits) as bench:
        for _ in range(3):
            await bench.transfer(1)

        async def refuse(_connection: AsyncConnection) -> None:
            raise StoreError("no")

        bench.database.before_commit = refuse
        with pytest.raises(StoreError):
            await bench.transfer(1)
        bench.database.before_commit = None
        assert await alerts(bench) == []
        await bench.transfer(1)
        assert len(await alerts(bench)) == 1


async def test_costs_near_their_ceiling_are_told_once_before_they_are_refused(
    tmp_path: Path,
) -> None:
    before = raised("costs_near_ceiling")
    fee = 5_000
    limits = replace(UNLIMITED, daily_costs_lamports=5 * fee)
    async with open_bench(tmp_path, limits=limits) as bench:
        scope = f"wallet:{bench.wallet.id}"
        for _ in range(3):
            await bench.transfer(1)
        assert await alerts(bench) == []
        fourth = await bench.transfer(1)
        [told] = await alerts(bench)
        assert (told["alert"], told["transactionId"]) == ("costs_near_ceiling", fourth.id)
        assert scope in told["detail"]
        await bench.transfer(1)
        with pytest.raises(GuardrailBlocked, match="MAX_COSTS_SOL_PER_DAY"):
            await bench.transfer(1)
        assert len(await alerts(bench)) == 1
        assert raised("costs_near_ceiling") == before + 1
        # Half of them leave the window, and the next near approach is a day later.
        bench.engine._reserver._alerted_ms[scope] -= DAY_MS
        async with bench.database.write() as connection:
            mine = reservations.c.scope == scope
            earlier = reservations.c.created_ms - DAY_MS
            await connection.execute(
                update(reservations)
                .where(mine, reservations.c.transaction_id != fourth.id)
                .values(created_ms=earlier)
            )
        for _ in range(3):
            await bench.transfer(1)
        assert len(await alerts(bench)) == 2


async def test_an_unknown_fate_is_told_once_though_it_is_noted_again(tmp_path: Path) -> None:
    before = raised("attempt_unknown")
    async with open_bench(tmp_path) as bench:
        record = await bench.transfer(1)
        await permit_changes_of_ended_records(bench.database)
        async with bench.database.write() as connection:
            await connection.execute(
                update(transactions).values(status=TransactionStatus.PENDING.value)
            )
            await connection.execute(update(attempts).values(state="sent"))
        for _ in range(2):
            async with bench.database.write() as connection:
                await attempt_store.mark_unknown(connection, [str(record.signature)])
        [told] = await alerts(bench)
        assert (told["alert"], told["transactionId"]) == ("attempt_unknown", record.id)
        assert str(record.signature) in told["detail"]
        assert raised("attempt_unknown") == before + 1
