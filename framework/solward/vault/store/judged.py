"""Statements on judged effects, which are deleted with their reservations after 400 days."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.records import insert_new
from solward.database.tables import (
    judged_effects,
    reservation_totals,
    reservations,
    transactions,
)
from solward.support.durations import DAY_MS, HOUR_MS
from solward.types.record import TransactionStatus

COUNTED_MS = 400 * DAY_MS
"""How long judged effects and reservations are kept: replays read 366 days, and for each
transaction also the window before it, of at most 30 days."""

_JUDGED = Prepared(insert_new(judged_effects))


async def note_judged(connection: AsyncConnection, row: Mapping[str, Any]) -> None:
    """Store a row of judged effects unless the transaction has a row: a hold that is requested
    again was judged before."""
    await _JUDGED.run(connection, row)


# A pending transaction still counts, however old it is, so its rows stay.
_OLD = (
    select(judged_effects.c.seq, judged_effects.c.transaction_id)
    .outerjoin(transactions, transactions.c.id == judged_effects.c.transaction_id)
    .where(
        judged_effects.c.created_ms < bindparam("b_before"),
        or_(
            transactions.c.status.is_(None),
            transactions.c.status != TransactionStatus.PENDING.value,
        ),
    )
    .order_by(judged_effects.c.created_ms)
    .limit(bindparam("b_size"))
)
_OF_IDS = reservations.c.transaction_id.in_(bindparam("ids", expanding=True))
_HOURS = (
    select(
        reservations.c.scope,
        reservations.c.asset,
        (reservations.c.created_ms // HOUR_MS).label("hour"),
    )
    .where(_OF_IDS)
    .distinct()
)
_FORGET_RESERVATIONS = delete(reservations).where(_OF_IDS)
# Triggers have subtracted the deleted rows from the totals of their hours.
_FORGET_HOURS = delete(reservation_totals).where(
    reservation_totals.c.scope == bindparam("b_scope"),
    reservation_totals.c.asset == bindparam("b_asset"),
    reservation_totals.c.hour == bindparam("b_hour"),
    reservation_totals.c.count == 0,
)
_FORGET_JUDGED = delete(judged_effects).where(
    judged_effects.c.seq.in_(bindparam("seqs", expanding=True))
)


async def forget(connection: AsyncConnection, before_ms: int, at_most: int) -> int:
    """Delete up to `at_most` rows that were judged before a time, with their reservations and the
    hourly totals that become empty; return the number of rows.

    Args:
        before_ms: a time at least `COUNTED_MS` ago.
    """
    rows = (await connection.execute(_OLD, {"b_before": before_ms, "b_size": at_most})).all()
    if not rows:
        return 0
    ids = {"ids": [row.transaction_id for row in rows]}
    hours = (await connection.execute(_HOURS, ids)).all()
    await connection.execute(_FORGET_RESERVATIONS, ids)
    if hours:
        keys = [{"b_scope": r.scope, "b_asset": r.asset, "b_hour": int(r.hour)} for r in hours]
        await connection.execute(_FORGET_HOURS, keys)
    await connection.execute(_FORGET_JUDGED, {"seqs": [row.seq for row in rows]})
    return len(rows)
