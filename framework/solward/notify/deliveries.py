"""Deliveries of webhooks that wait, and nonces of decisions that came back.

A delivery is claimed with a lease: of several processes one sends it, and where that one dies
another does when the lease has run out. A subject, such as a hold, has one delivery that waits at
most, and one that is being sent: what is newer supersedes, and no older one arrives after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import (
    BindParameter,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import clock
from solward.database.records import insert_new
from solward.database.tables import webhook_deliveries, webhook_nonces
from solward.support.durations import DAY_MS

# Rows that ended are kept for whoever asks why a person heard nothing.
KEPT_MS = 7 * DAY_MS
# Far beyond the window in which a decision counts: a clock that is set back, by up to a day, lets
# no nonce in again. No hold lives longer.
NONCES_KEPT_MS = 2 * DAY_MS

_WAITING = "waiting"

Channel = Literal["approvals", "alerts"]
"""Whose receiver a delivery is for: of what waits for a person, or of alerts."""

_NOW: BindParameter[int] = bindparam("now")
_rows = webhook_deliveries.c
_sent = webhook_deliveries.alias("sent")
# As the partial index has it, so that both databases use it.
_IS_WAITING = _rows.state == literal_column("'waiting'")
_FREE = _rows.lease_until_ms <= _NOW
_OF_THE_CHANNEL = _rows.channel == bindparam("b_channel")
_OF_THE_SUBJECT = _sent.c.subject == _rows.subject
# A try has ended, and not well.
_FAILED = or_(_rows.tries > 1, and_(_rows.tries > 0, _rows.lease_until_ms == 0))
_SUPERSEDE = (
    update(webhook_deliveries)
    .where(_rows.subject == bindparam("b_subject"), _IS_WAITING)
    .values(state="superseded")
)
_DUE = (
    select(_rows.id, _rows.subject, _rows.body, _rows.created_ms, _rows.tries)
    .where(
        _IS_WAITING,
        _OF_THE_CHANNEL,
        _rows.next_ms <= _NOW,
        # The next clause says it too, but PostgreSQL asks it of the state before the row was
        # locked, and this one again of a row that another process claimed meanwhile.
        _FREE,
        # Nothing of its subject is being sent. What is newer waited for the older one's lease to be
        # committed, since it superseded that row.
        ~exists().where(_OF_THE_SUBJECT, _sent.c.lease_until_ms > _NOW),
    )
    .order_by(_rows.next_ms)
    .limit(bindparam("at_most"))
    .with_for_update(of=webhook_deliveries, skip_locked=True)
)
_CLAIM = (
    update(webhook_deliveries)
    .where(_rows.id.in_(bindparam("ids", expanding=True)))
    .values(tries=_rows.tries + 1, lease_until_ms=bindparam("b_until"))
)
_END_TRY = (
    update(webhook_deliveries)
    .where(_rows.id == bindparam("b_id"), _rows.tries == bindparam("b_tries"))
    .values(
        lease_until_ms=0,
        next_ms=bindparam("b_next"),
        state=case((_IS_WAITING, bindparam("b_state")), else_=_rows.state),
    )
    .returning(_rows.state)
)
_WHEN = case((_rows.next_ms > _rows.lease_until_ms, _rows.next_ms), else_=_rows.lease_until_ms)
_NEXT = select(func.min(_WHEN)).where(_IS_WAITING, _OF_THE_CHANNEL)
_FORGET_LEASES = (
    update(webhook_deliveries)
    .where(_rows.lease_until_ms > 0, _OF_THE_CHANNEL)
    .values(lease_until_ms=0)
)
_FORGET = delete(webhook_deliveries).where(
    ~_IS_WAITING, _rows.created_ms < bindparam("before"), _FREE
)
_WAITS = (
    select(_rows.channel, func.count(), func.max(case((_FAILED, 1), else_=0)))
    .where(_IS_WAITING)
    .group_by(_rows.channel)
)
_TAKE_NONCE = insert_new(webhook_nonces).execution_options(preserve_rowcount=True)
_FORGET_NONCES = delete(webhook_nonces).where(webhook_nonces.c.created_ms < bindparam("before"))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this process sends now.

    Attributes:
        tries: with this one; a process that lost its lease finds another number.
        created_ms: when what it tells happened.
        claimed_ms: now, by the database's clock.
    """

    id: str
    subject: str
    body: str
    created_ms: int
    tries: int
    claimed_ms: int


async def add(
    connection: AsyncConnection, channel: Channel, delivery_id: str, subject: str, body: str
) -> None:
    """Let a delivery wait, in the transaction of what it tells, in place of its subject's earlier.

    Args:
        subject: what newer deliveries of take this one's place: a hold's id.
    """
    now = await clock(connection)
    await connection.execute(_SUPERSEDE, {"b_subject": subject})
    row = {
        "id": delivery_id,
        "channel": channel,
        "subject": subject,
        "body": body,
        "created_ms": now,
        "next_ms": now,
        "tries": 0,
        "state": _WAITING,
        "lease_until_ms": 0,
    }
    await connection.execute(insert(webhook_deliveries), row)


async def claim(
    connection: AsyncConnection, channel: Channel, at_most: int, lease_ms: int
) -> list[Claimed]:
    """Claim what is due, oldest first; no other process gets it before the lease has run out."""
    now = await clock(connection)
    rows = (
        await connection.execute(_DUE, {"b_channel": channel, "now": now, "at_most": at_most})
    ).all()
    if rows:
        ids = [row.id for row in rows]
        await connection.execute(_CLAIM, {"ids": ids, "b_until": now + lease_ms})
    return [
        Claimed(row.id, row.subject, row.body, row.created_ms, row.tries + 1, now) for row in rows
    ]


async def end_try(
    connection: AsyncConnection,
    claimed: Claimed,
    state: Literal["waiting", "delivered", "given_up"],
    next_ms: int = 0,
) -> bool:
    """Say how a try ended; `waiting` is tried again at `next_ms`.

    Returns:
        Whether the delivery has the state now: not where it was superseded meanwhile, or where
        another process took it after the lease had run out.
    """
    values = {"b_id": claimed.id, "b_tries": claimed.tries, "b_state": state, "b_next": next_ms}
    return bool((await connection.execute(_END_TRY, values)).scalar() == state)


async def next_due(connection: AsyncConnection, channel: Channel) -> int | None:
    """Milliseconds until something is due, at least 0; None where nothing waits."""
    due = (await connection.execute(_NEXT, {"b_channel": channel})).scalar()
    return None if due is None else max(0, int(due) - await clock(connection))


async def forget_leases(connection: AsyncConnection, channel: Channel) -> None:
    """Let everything be claimed: for the start of the one process on SQLite."""
    await connection.execute(_FORGET_LEASES, {"b_channel": channel})


async def forget_old(connection: AsyncConnection) -> None:
    """Delete deliveries that ended `KEPT_MS` ago."""
    now = await clock(connection)
    await connection.execute(_FORGET, {"now": now, "before": now - KEPT_MS})


async def waiting(connection: AsyncConnection) -> dict[str, tuple[int, bool]]:
    """Of each channel that has deliveries waiting: how many, and whether one was not taken."""
    rows = await connection.execute(_WAITS)
    return {channel: (int(count), bool(failed)) for channel, count, failed in rows}


async def take_nonce(connection: AsyncConnection, nonce: str) -> bool:
    """Accept a nonce; False where it was accepted before."""
    now = await clock(connection)
    await connection.execute(_FORGET_NONCES, {"before": now - NONCES_KEPT_MS})
    row = {"nonce": nonce, "created_ms": now}
    taken = await connection.execute(_TAKE_NONCE, row)
    return taken.rowcount == 1
