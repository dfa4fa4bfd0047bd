"""Alerts that wait to be told, grouped by what they are about.

A group is one row, however often its alert comes: whoever causes ten thousand refusals adds to a
count. What a group gathered since it was last told is one line of the next message, and the more
often it was told, the longer it waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, BindParameter, bindparam, case, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import clock, try_lock_exclusive
from solward.database.service_tables import alert_groups
from solward.support.durations import HOUR_MS

# The longest wait of a group that goes on, and what it is forgotten after.
LONGEST_WAIT_MS = HOUR_MS
# Groups of one message.
MOST_TAKEN = 1_000

_LOCK = "alert_groups"
# Far beyond the longest wait, and no overflow.
_MOST_DOUBLED = 32

_NOW: BindParameter[int] = bindparam("now", type_=BigInteger)
_rows = alert_groups.c


def _noted(new: Any) -> Any:
    added = new.excluded
    since = case((_rows.count == 0, added.first_ms), else_=_rows.first_ms)
    return new.on_conflict_do_update(
        index_elements=[_rows.key],
        set_={
            "count": _rows.count + added.count,
            "first_ms": since,
            "last_ms": added.last_ms,
            "fields": added.fields,
        },
    )


_NOTE = {
    "sqlite": _noted(sqlite.insert(alert_groups)),
    "postgresql": _noted(postgresql.insert(alert_groups)),
}
_DUE = select(func.min(_rows.next_ms)).where(_rows.count > 0)
_LAST = select(func.max(_rows.told_ms))
# Rows that somebody adds to right now wait for the next message: nobody waits for another here, so
# the order of the locks is nobody's concern.
_WAITING = (
    select(alert_groups)
    .where(_rows.count > 0)
    .order_by(_rows.first_ms)
    .limit(MOST_TAKEN)
    .with_for_update(skip_locked=True)
)
_WAIT = bindparam("b_interval", type_=BigInteger).op("<<")(_rows.tells)
_TOLD = (
    update(alert_groups)
    .where(_rows.key.in_(bindparam("keys", expanding=True)))
    .values(
        count=0,
        told_ms=_NOW,
        tells=case((_rows.tells < _MOST_DOUBLED, _rows.tells + 1), else_=_rows.tells),
        next_ms=_NOW + case((_WAIT > LONGEST_WAIT_MS, LONGEST_WAIT_MS), else_=_WAIT),
    )
)
_FORGET = delete(alert_groups).where(_rows.count == 0, _rows.told_ms < bindparam("before"))


@dataclass(frozen=True, slots=True)
class Group:
    """What came of one thing since it was last told.

    Attributes:
        name: of an alert or of an event.
        fields: of the latest, as JSON text.
        count: how many came.
        first_ms: when the first of these came, by the database's clock.
        last_ms: when the latest came.
    """

    name: str
    fields: str
    count: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell, once it is committed; `key` says with what it is grouped."""

    key: str
    name: str
    fields: str
    count: int = 1


async def note(connection: AsyncConnection, notes: Sequence[Note]) -> None:
    """Add to groups, in the transaction of what is noted."""
    now = await clock(connection)
    statement = _NOTE[connection.dialect.name]
    # By key, so that two transactions that add to the same groups cannot deadlock.
    for each in sorted(notes, key=lambda note: note.key):
        row = {
            "key": each.key,
            "name": each.name,
            "fields": each.fields,
            "count": each.count,
            "first_ms": now,
            "last_ms": now,
            "told_ms": 0,
            "tells": 0,
            "next_ms": now,
        }
        await connection.execute(statement, row)


async def next_due(connection: AsyncConnection, interval_ms: int) -> int | None:
    """Milliseconds until a message is due, at least 0; None where nothing waits.

    Args:
        interval_ms: between two messages, whatever they tell.
    """
    due = (await connection.execute(_DUE)).scalar()
    if due is None:
        return None
    last = (await connection.execute(_LAST)).scalar() or 0
    return max(0, max(int(due), int(last) + interval_ms) - await clock(connection))


async def take(connection: AsyncConnection, interval_ms: int) -> list[Group]:
    """What the next message tells, oldest first, at most `MOST_TAKEN`; empty where none is due.

    Of processes that ask at once, one gets it. A group that was told is told again after
    `interval_ms` at the earliest, then after twice as long each time, up to `LONGEST_WAIT_MS`,
    unless there is a message anyway; one that was quiet for that long begins anew.
    """
    if not await try_lock_exclusive(connection, _LOCK):
        return []
    now = await clock(connection)
    await connection.execute(_FORGET, {"before": now - LONGEST_WAIT_MS})
    if await next_due(connection, interval_ms) != 0:
        return []
    rows = (await connection.execute(_WAITING)).mappings().all()
    if rows:
        values = {"keys": [row["key"] for row in rows], "now": now, "b_interval": interval_ms}
        await connection.execute(_TOLD, values)
    return [
        Group(row["name"], row["fields"], row["count"], row["first_ms"], row["last_ms"])
        for row in rows
    ]
