"""On PostgreSQL, where reservations and ends of many processes change a scope's totals at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import func, insert, select
from tests.support.database import WALLET_ROW

from solward.database.database import Database
from solward.database.tables import reservation_totals, reservations, wallets
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store import attempts, spending
from solward.vault.store import transactions as records
from solward.vault.store.attempts import Settlement

pytestmark = pytest.mark.more

SCOPES = ("wallet:w", "agent:a")
GRANTS = ("grant:key:a#1", "grant:key:b#1")


async def begin(database: Database, numbers: Sequence[int]) -> None:
    """Pending transactions that a wallet and an agent count, every other one two grants too."""
    async with database.write() as connection:
        await spending.lock(connection, "w")
        for number in numbers:
            record = TransactionRecord(
                f"{number * 7919 % 1000:03}", "w", "transfer", TransactionStatus.PENDING, {}, (),
                created_ms=number, principal="admin",
            )  # fmt: skip
            await records.insert_record(connection, record, action_key=None)
            rows = [(scope, asset, 5) for scope in GRANTS for asset in ("SOL", "COSTS", "USD")]
            units = {"SOL": 5, "USD": 5}
            more = rows if number % 2 else ()
            await spending.reserve(connection, record.id, SCOPES, units, 1, more)


async def test_ends_and_reservations_of_the_same_scopes_never_deadlock(
    postgres_database: Database,
) -> None:
    database, count = postgres_database, 60
    async with database.write() as connection:
        await connection.execute(
            insert(wallets).values(WALLET_ROW | {"id": "w", "public_key": "w"})
        )
    await begin(database, range(count))
    ids = [f"{number * 7919 % 1000:03}" for number in range(count)]

    async def end(some: Sequence[str], lowered: Sequence[str]) -> None:
        ends = [
            Settlement(
                each,
                TransactionStatus.FAILED,
                attempts.AttemptState.LANDED_ERR if lowered else None,
                0,
                0,
                lowered=dict.fromkeys(lowered, 0),
            )
            for each in some
        ]
        async with database.write() as connection:
            await attempts.settle(connection, ends)

    batches = [ids[at : at + 4] for at in range(0, count, 4)]
    # Each changes the totals in another order, and releases every third.
    orders = (("SOL", "USD"), (), ("USD", "SOL"))
    ends = [end(some, orders[at % 3]) for at, some in enumerate(batches)]
    # While others are reserved.
    await asyncio.gather(*ends, *(begin(database, [number]) for number in range(500, 530)))
    async with database.read() as connection:
        left = (
            reservations.c.scope,
            reservations.c.asset,
            func.sum(reservations.c.units),
            func.count(),
        )
        rows = select(*left).group_by(*left[:2])
        by_rows = {(scope, asset): (int(units), n) for scope, asset, units, n in
                   await connection.execute(rows)}  # fmt: skip
        totals = select(
            reservation_totals.c.scope,
            reservation_totals.c.asset,
            reservation_totals.c.low,
            reservation_totals.c.count,
        )
        by_totals = {(scope, asset): (int(units), int(n)) for scope, asset, units, n in
                     await connection.execute(totals)}  # fmt: skip
    assert by_totals == by_rows
    # Of the ends nothing is left of these.
    units = {(scope, asset): units for (scope, asset), (units, _) in by_rows.items()}
    assert {units[scope, asset] for scope in GRANTS for asset in ("SOL", "USD")} == {75}
    assert {units[scope, asset] for scope in SCOPES for asset in ("SOL", "USD")} == {150}
