"""Statements on schedules and their runs. Each function works inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.tables import schedule_runs, schedules, transactions
from solward.resources.answers import answer_json
from solward.resources.schedules import ScheduleRun
from solward.schedules.schedule import Schedule, schedule_of


async def add(connection: AsyncConnection, schedule: Schedule) -> None:
    """Store a new schedule."""
    await connection.execute(insert(schedules).values(**schedule.to_row()))


async def get(
    connection: AsyncConnection, schedule_id: str, *, lock: bool = False
) -> Schedule | None:
    """One schedule, or None; `lock` locks its row until the transaction ends."""
    statement = select(schedules).where(schedules.c.id == schedule_id)
    if lock:
        statement = statement.with_for_update()
    row = (await connection.execute(statement)).mappings().first()
    return None if row is None else schedule_of(row)


async def listed(connection: AsyncConnection, wallet_id: str) -> list[Schedule]:
    """A wallet's schedules, oldest first."""
    statement = (
        select(schedules)
        .where(schedules.c.wallet_id == wallet_id)
        .order_by(schedules.c.created_ms, schedules.c.id)
    )
    return [schedule_of(row) for row in (await connection.execute(statement)).mappings()]


async def count(connection: AsyncConnection, made_by: str) -> int:
    """How many schedules somebody made."""
    statement = select(func.count()).where(schedules.c.made_by == made_by)
    return int((await connection.execute(statement)).scalar_one())


async def change(connection: AsyncConnection, schedule: Schedule, **columns: Any) -> Schedule:
    """Change columns of a schedule whose row is locked; returns the new one."""
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


async def was_run(connection: AsyncConnection, schedule_id: str, due_ms: int) -> bool:
    """Whether a due time is known."""
    statement = select(schedule_runs.c.due_ms).where(
        schedule_runs.c.schedule_id == schedule_id, schedule_runs.c.due_ms == due_ms
    )
    return (await connection.execute(statement)).first() is not None


async def runs(
    connection: AsyncConnection, schedule_id: str, limit: int, before_ms: int | None = None
) -> list[dict[str, Any]]:
    """Runs as routes show them, newest first, of due times before `before_ms`."""
    statement = (
        select(schedule_runs)
        .where(schedule_runs.c.schedule_id == schedule_id)
        .order_by(schedule_runs.c.due_ms.desc())
        .limit(limit)
    )
    if before_ms is not None:
        statement = statement.where(schedule_runs.c.due_ms < before_ms)
    rows = (await connection.execute(statement)).all()
    made = await _made(connection, schedule_id, [row.due_ms for row in rows])
    return [answer_json(ScheduleRun, row, transaction_ids=made.get(row.due_ms, [])) for row in rows]


def action_prefix(schedule_id: str, due_ms: int) -> str:
    """What the action keys of a due time begin with; they are ordered by due time, which has 13
    digits until the year 2286."""
    return f"schedule:{schedule_id}:{due_ms:013d}:"


async def _made(
    connection: AsyncConnection, schedule_id: str, due_times: Sequence[int]
) -> dict[int, list[str]]:
    """due time -> ids of the records it made, the first first; of some due times, newest first."""
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
