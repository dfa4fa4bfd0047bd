"""SQL statements on schedules and their runs, each inside the caller's transaction.

Runs are fenced: claiming a due time increases the schedule's fence, and a run with an older fence
can neither spend for the schedule nor end. If a process dies, another process takes over its runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy import exists as sql_exists
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import clock
from solward.database.prepared import Prepared
from solward.database.tables import processes, schedule_runs, schedules, transactions
from solward.resources.declare import answer_json
from solward.resources.schedules import RUNS_KEPT, ScheduleRun
from solward.schedules.schedule import Schedule, schedule_of

_ACTIVE: Final = "active"

_DUE = and_(schedules.c.status == _ACTIVE, schedules.c.next_due_ms.is_not(None))
# Schedules that no other living process runs. Nothing announces the death of a process, so its runs
# are searched together with due schedules.
_MINE = and_(
    _DUE,
    schedules.c.id.not_in(bindparam("running", expanding=True)),
    schedules.c.made_by.not_in(bindparam("busy", expanding=True)),
    or_(
        schedules.c.owner.is_(None),
        schedules.c.owner == bindparam("me"),
        ~sql_exists().where(
            processes.c.id == schedules.c.owner, processes.c.lease_until_ms > bindparam("clock")
        ),
    ),
)
_NEXT = Prepared(select(func.min(schedules.c.next_due_ms)).where(_MINE))
_TAKE = (
    select(schedules)
    .where(_MINE, schedules.c.next_due_ms <= bindparam("now"))
    .order_by(schedules.c.next_due_ms, schedules.c.id)
    .limit(bindparam("most"))
    .with_for_update(of=schedules, skip_locked=True)
)


async def add(connection: AsyncConnection, schedule: Schedule) -> None:
    """Store a new schedule."""
    await connection.execute(insert(schedules).values(**schedule.to_row()))


async def get(
    connection: AsyncConnection, schedule_id: str, *, lock: bool = False
) -> Schedule | None:
    """Return one schedule, or None; `lock` locks its row until the transaction ends."""
    statement = select(schedules).where(schedules.c.id == schedule_id)
    if lock:
        statement = statement.with_for_update()
    row = (await connection.execute(statement)).mappings().first()
    return None if row is None else schedule_of(row)


async def list_schedules(
    connection: AsyncConnection, wallet_id: str | None = None
) -> list[Schedule]:
    """Return the schedules of a wallet, or all for None; oldest first."""
    statement = select(schedules).order_by(schedules.c.created_ms, schedules.c.id)
    if wallet_id is not None:
        statement = statement.where(schedules.c.wallet_id == wallet_id)
    return [schedule_of(row) for row in (await connection.execute(statement)).mappings()]


async def count(connection: AsyncConnection, made_by: str) -> int:
    """Count the schedules that a principal made."""
    statement = select(func.count()).where(schedules.c.made_by == made_by)
    return int((await connection.execute(statement)).scalar_one())


async def change(connection: AsyncConnection, schedule: Schedule, **columns: Any) -> Schedule:
    """Change columns of a schedule with a locked row; return the changed schedule."""
    changed = replace(schedule, **columns)
    row = changed.to_row()
    await connection.execute(
        update(schedules)
        .where(schedules.c.id == schedule.id)
        .values({name: row[name] for name in columns})
    )
    return changed


async def remove(connection: AsyncConnection, schedule_id: str) -> None:
    """Delete a schedule with its runs."""
    await connection.execute(delete(schedules).where(schedules.c.id == schedule_id))
    await connection.execute(
        delete(schedule_runs).where(schedule_runs.c.schedule_id == schedule_id)
    )


async def has_run(connection: AsyncConnection, schedule_id: str, due_ms: int) -> bool:
    """Return whether a due time has a run with any status."""
    statement = select(schedule_runs.c.due_ms).where(
        schedule_runs.c.schedule_id == schedule_id, schedule_runs.c.due_ms == due_ms
    )
    return (await connection.execute(statement)).first() is not None


async def runs(
    connection: AsyncConnection, schedule_id: str, limit: int, before_ms: int | None = None
) -> list[dict[str, Any]]:
    """Return the runs before `before_ms` as routes show them, newest first."""
    statement = (
        select(schedule_runs)
        .where(schedule_runs.c.schedule_id == schedule_id)
        .order_by(schedule_runs.c.due_ms.desc())
        .limit(limit)
    )
    if before_ms is not None:
        statement = statement.where(schedule_runs.c.due_ms < before_ms)
    rows = (await connection.execute(statement)).all()
    made = await _transaction_ids(connection, schedule_id, [row.due_ms for row in rows])
    return [answer_json(ScheduleRun, row, transaction_ids=made.get(row.due_ms, [])) for row in rows]


def action_prefix(schedule_id: str, due_ms: int) -> str:
    """Return the prefix of a due time's action keys.

    The keys sort by due time, which has 13 digits until the year 2286.
    """
    return f"schedule:{schedule_id}:{due_ms:013d}:"


async def _transaction_ids(
    connection: AsyncConnection, schedule_id: str, due_times: Sequence[int]
) -> dict[int, list[str]]:
    """Return the transaction ids of each due time, oldest first; `due_times` is newest first."""
    found: dict[int, list[str]] = {}
    if not due_times:
        return found
    begin = action_prefix(schedule_id, due_times[-1])
    # `;` follows `:` in ASCII, which makes the prefix a range of the unique index.
    end = action_prefix(schedule_id, due_times[0])[:-1] + ";"
    statement = (
        select(transactions.c.id, transactions.c.action_key)
        .where(transactions.c.action_key >= begin, transactions.c.action_key < end)
        .order_by(transactions.c.seq)
    )
    for row in await connection.execute(statement):
        found.setdefault(int(row.action_key.split(":")[2]), []).append(row.id)
    return found


async def next_due(
    connection: AsyncConnection, me: str, running: Collection[str], busy: Collection[str]
) -> int | None:
    """Return the next due time of a schedule that this process may run (ms), or None.

    Args:
        me: this process's id.
        running: schedules that are running in this process.
        busy: keys that already have the maximum number of runs in this process.
    """
    found = await _NEXT.scalar(connection, await _filters(connection, me, running, busy))
    return None if found is None else int(found)


async def take_due(
    connection: AsyncConnection,
    me: str,
    now_ms: int,
    running: Collection[str],
    busy: Collection[str],
    max_count: int,
) -> list[Schedule]:
    """Lock and return up to `max_count` schedules that are due and that no living process runs.

    Rows that another process has locked are skipped.

    Args:
        me, running, busy: as in `next_due`.
    """
    parameters = await _filters(connection, me, running, busy) | {"now": now_ms, "most": max_count}
    return [schedule_of(row) for row in (await connection.execute(_TAKE, parameters)).mappings()]


async def _filters(
    connection: AsyncConnection, me: str, running: Collection[str], busy: Collection[str]
) -> dict[str, Any]:
    # On SQLite the home's lock proves that no other process is alive, and leases are not renewed.
    clock_ms = 0 if connection.dialect.name == "sqlite" else await clock(connection)
    return {"me": me, "clock": clock_ms, "running": list(running), "busy": list(busy)}


async def put_run(
    connection: AsyncConnection, schedule_id: str, due_ms: int, fields: Mapping[str, Any]
) -> None:
    """Insert or update the run of a due time; delete the oldest runs beyond `RUNS_KEPT`."""
    key = and_(schedule_runs.c.schedule_id == schedule_id, schedule_runs.c.due_ms == due_ms)
    changed = await connection.execute(update(schedule_runs).where(key).values(**fields))
    if changed.rowcount:
        return
    await connection.execute(
        insert(schedule_runs).values(schedule_id=schedule_id, due_ms=due_ms, **fields)
    )
    oldest = (
        select(schedule_runs.c.due_ms)
        .where(schedule_runs.c.schedule_id == schedule_id)
        .order_by(schedule_runs.c.due_ms.desc())
        .offset(RUNS_KEPT)
        .limit(1)
        .scalar_subquery()
    )
    await connection.execute(
        delete(schedule_runs).where(
            schedule_runs.c.schedule_id == schedule_id, schedule_runs.c.due_ms <= oldest
        )
    )
