"""Statements on leases of the processes on this database, and on takeover from dead processes.

A process renews its lease every few seconds. Its pending transactions, and its skill calls with a
key, are stored with its id. Once the lease has run out, other processes take them over. The id is
the fence: if the old process finds another id there, it may not sign, write ahead or release.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy import exists as sql_exists
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import clock
from solward.database.records import insert_or_set
from solward.database.tables import processes, transactions
from solward.support.durations import DAY_MS
from solward.vault.store.transactions import UNFINISHED

_LIVES = processes.c.lease_until_ms > bindparam("now")
_ORPHANED = (
    select(transactions.c.seq)
    .where(
        UNFINISHED,
        transactions.c.owner.is_distinct_from(bindparam("me")),
        ~sql_exists().where(processes.c.id == transactions.c.owner, _LIVES),
    )
    .order_by(transactions.c.seq)
    .limit(bindparam("at_most"))
    .with_for_update(of=transactions, skip_locked=True)
)
_RENEW = insert_or_set(processes, ("id",), "lease_until_ms")
_TAKE = (
    update(transactions)
    .where(transactions.c.seq.in_(bindparam("seqs", expanding=True)))
    .values(owner=bindparam("me"))
)


async def register(
    connection: AsyncConnection, process_id: str, kind: str, host: str, lease_ms: int
) -> None:
    """Begin a process's lease. On SQLite the home's lock proves that no other process lives."""
    lease = await _lease_row(connection, process_id, kind, host, lease_ms)
    if connection.dialect.name == "sqlite":
        await connection.execute(delete(processes))
    else:
        # Dead processes stay listed for a day, for diagnosis.
        gone = processes.c.lease_until_ms < lease["started_ms"] - DAY_MS
        await connection.execute(delete(processes).where(gone))
    await connection.execute(insert(processes), lease)


async def renew(
    connection: AsyncConnection, process_id: str, kind: str, host: str, lease_ms: int
) -> None:
    """Continue a lease, even if it expired; transactions that others took over stay with them."""
    await connection.execute(_RENEW, await _lease_row(connection, process_id, kind, host, lease_ms))


async def _lease_row(
    connection: AsyncConnection, process_id: str, kind: str, host: str, lease_ms: int
) -> dict[str, Any]:
    now = await clock(connection)
    return {
        "id": process_id,
        "kind": kind,
        "host": host,
        "started_ms": now,
        "lease_until_ms": now + lease_ms,
    }


async def remove(connection: AsyncConnection, process_id: str) -> None:
    """End a lease, so that others may take over the process's open transactions at once."""
    await connection.execute(delete(processes).where(processes.c.id == process_id))


async def alive(connection: AsyncConnection, process_id: str) -> bool:
    """Return whether a process has a valid lease."""
    now = await clock(connection)
    statement = select(processes.c.id).where(processes.c.id == process_id, _LIVES)
    return (await connection.execute(statement, {"now": now})).first() is not None


async def list_living(connection: AsyncConnection) -> list[str]:
    """Return every process with a valid lease, as `<kind> on <host>`, oldest first."""
    now = await clock(connection)
    statement = (
        select(processes.c.kind, processes.c.host)
        .where(_LIVES)
        .order_by(processes.c.started_ms, processes.c.id)
    )
    rows = await connection.execute(statement, {"now": now})
    return [f"{row.kind} on {row.host}" for row in rows]


async def count_by_kind(connection: AsyncConnection) -> dict[str, int]:
    """Count the processes with a valid lease, by kind.

    On SQLite the only process does not renew its lease, so it always counts.
    """
    statement = select(processes.c.kind, func.count()).group_by(processes.c.kind)
    if connection.dialect.name != "sqlite":
        statement = statement.where(processes.c.lease_until_ms > await clock(connection))
    return {kind: int(count) for kind, count in await connection.execute(statement)}


async def disown(connection: AsyncConnection, transaction_id: str, me: str) -> bool:
    """Leave a pending transaction of `me` to the process that takes over next, which may be `me`.
    Return whether there was such a transaction."""
    statement = (
        update(transactions)
        .where(UNFINISHED, transactions.c.id == transaction_id, transactions.c.owner == me)
        .values(owner=None)
    )
    return bool((await connection.execute(statement)).rowcount)


async def take_over(connection: AsyncConnection, me: str, most: int) -> list[int]:
    """Make `me` the owner of up to `most` pending transactions of dead processes.

    Concurrent callers never get the same transaction.

    Returns:
        The transactions' `seq`, oldest first.
    """
    parameters = {"me": me, "now": await clock(connection), "at_most": most}
    seqs = list((await connection.execute(_ORPHANED, parameters)).scalars())
    if seqs:
        await connection.execute(_TAKE, {"me": me, "seqs": seqs})
    return seqs
