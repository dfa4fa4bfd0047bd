"""Who works on this database, and what was left behind by those who no longer do.

A process says every few seconds that it lives. What it drives, a transaction that is pending or a
skill call with a key, carries its id; when its lease has run out, others take that over. The id is
the fence: whoever was taken from finds another's, and may no longer sign, write ahead or release.
"""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy import exists as sql_exists
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.clock import DAY_MS, now_ms
from solward.vault.store.tables import processes, transactions
from solward.vault.store.transactions import UNFINISHED

# By the database's clock: those of the machines may differ.
CLOCK: ColumnElement[int] = literal_column("(extract(epoch FROM clock_timestamp()) * 1000)::bigint")

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
_TAKE = (
    update(transactions)
    .where(transactions.c.seq.in_(bindparam("taken", expanding=True)))
    .values(owner=bindparam("me"))
)


async def clock(connection: AsyncConnection) -> int:
    """Milliseconds since the epoch, as every process on this database counts them."""
    if connection.dialect.name == "sqlite":
        return now_ms()
    return int((await connection.execute(select(CLOCK))).scalar_one())


async def register(
    connection: AsyncConnection, process_id: str, kind: str, host: str, lease_ms: int
) -> None:
    """Begin a process's lease. On SQLite nobody else can be alive, as the home's lock proves."""
    now = await clock(connection)
    if connection.dialect.name == "sqlite":
        await connection.execute(delete(processes))
    else:
        # Long gone; kept for a day for whoever looks at what happened.
        await connection.execute(delete(processes).where(processes.c.lease_until_ms < now - DAY_MS))
    await connection.execute(
        insert(processes).values(
            id=process_id, kind=kind, host=host, started_ms=now, lease_until_ms=now + lease_ms
        )
    )


async def renew(
    connection: AsyncConnection, process_id: str, kind: str, host: str, lease_ms: int
) -> None:
    """Lengthen a lease. One that ran out may go on: what was taken meanwhile stays taken."""
    now = await clock(connection)
    statement = postgresql.insert(processes).values(
        id=process_id, kind=kind, host=host, started_ms=now, lease_until_ms=now + lease_ms
    )
    lengthened = {"lease_until_ms": statement.excluded.lease_until_ms}
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["id"], set_=lengthened)
    )


async def remove(connection: AsyncConnection, process_id: str) -> None:
    """End a lease: what the process left open may be taken over at once."""
    await connection.execute(delete(processes).where(processes.c.id == process_id))


async def alive(connection: AsyncConnection, process_id: str) -> bool:
    """Whether a process has a lease that has not run out."""
    now = await clock(connection)
    statement = select(processes.c.id).where(processes.c.id == process_id, _LIVES)
    return (await connection.execute(statement, {"now": now})).first() is not None


async def living(connection: AsyncConnection) -> list[str]:
    """Every process with a lease that has not run out, as `<kind> on <host>`, oldest first."""
    now = await clock(connection)
    statement = (
        select(processes.c.kind, processes.c.host)
        .where(_LIVES)
        .order_by(processes.c.started_ms, processes.c.id)
    )
    rows = await connection.execute(statement, {"now": now})
    return [f"{row.kind} on {row.host}" for row in rows]


async def count_by_kind(connection: AsyncConnection) -> dict[str, int]:
    """How many processes of each kind have a lease that has not run out.

    On SQLite the one that runs has no need to renew its own.
    """
    statement = select(processes.c.kind, func.count()).group_by(processes.c.kind)
    if connection.dialect.name != "sqlite":
        statement = statement.where(processes.c.lease_until_ms > await clock(connection))
    return {kind: int(count) for kind, count in await connection.execute(statement)}


async def take_over(connection: AsyncConnection, me: str, most: int) -> list[int]:
    """Make up to `most` pending transactions of dead processes mine; their `seq`, oldest first.

    Two that do this at the same time never get the same one.
    """
    asked = {"me": me, "now": await clock(connection), "at_most": most}
    taken = list((await connection.execute(_ORPHANED, asked)).scalars())
    if taken:
        await connection.execute(_TAKE, {"me": me, "taken": taken})
    return taken
