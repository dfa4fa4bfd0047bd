"""Statements on transactions that wait for a person: stored, found, decided, and used once.

Each function works inside the caller's database transaction. Every caller locks a hold's row before
it stores the record of the hold's end, so that no callers deadlock.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Row, bindparam, func, insert, select, text, update
from sqlalchemy import exists as sql_exists
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import SERVICE, record_act
from solward.database.database import clock
from solward.database.plugin_entries import third_party
from solward.database.prepared import Prepared
from solward.database.records import EXACT, TEXTS, Records, enum_form
from solward.database.tables import holds, processes
from solward.database.tables import idempotency as idempotency_table
from solward.database.window_clock import Moment
from solward.support import jsontext
from solward.support.clock import iso
from solward.types.events import EventKind
from solward.types.record import ACTION, Hold, HoldState, TransactionRecord, TransactionStatus
from solward.vault.store import idempotency, transactions

GRANTS_RULE: Final = "grants"
"""The last entry in `guardrailsApplied` of a hold that nobody approved."""
MAX_OPEN: Final = 20
"""The maximum number of one principal's open holds, because a person reads each hold."""

_NEWEST: Final = 2**62
_MOST_CALLS: Final = 64
"""The maximum number of an action's money calls that `is_open_under` checks."""

OPEN: Final = text("holds.state IN ('held', 'approved')")
"""This text equals that of the partial index, so that both databases use the index."""
_EVENTS: Final = {
    HoldState.HELD: EventKind.HOLD_CREATED,
    HoldState.APPROVED: EventKind.HOLD_APPROVED,
    HoldState.EXECUTED: EventKind.HOLD_EXECUTED,
    HoldState.REFUSED: EventKind.HOLD_REFUSED,
    HoldState.DENIED: EventKind.HOLD_DENIED,
    HoldState.EXPIRED: EventKind.HOLD_EXPIRED,
}


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A hold as stored.

    Attributes:
        digest: hash of the request and the shown terms; no two open holds have the same digest.
        action_key: the request's action key.
        recipe: how to repeat the request; None if only the caller can repeat it.
        applied: the rules that judged the transaction.
        trace: where the request came from.
        keyless: whether the caller chose no key; a key would make this a separate payment.
        owner: the process that carries out the hold once it is approved.
    """

    hold: Hold
    digest: str
    action_key: str | None
    recipe: Mapping[str, Any] | None
    applied: tuple[str, ...]
    trace: str | None
    keyless: bool
    owner: str | None = None


_HOLDS = Records(Hold, holds, chain=TEXTS, state=enum_form(HoldState))
_ROWS = Records(HoldRow, holds, recipe=EXACT, applied=TEXTS)
COLUMNS: Final = (*_HOLDS.columns, *_ROWS.columns, holds.c.shown, holds.c.seq)
"""The columns that `row_of` reads."""
_SELECT = select(*COLUMNS)
_BY_ID = Prepared(_SELECT.where(holds.c.id == bindparam("b_id")))
_BY_ACTION = Prepared(_SELECT.where(holds.c.action_key == bindparam("b_key")))
_BY_DIGEST = Prepared(_SELECT.where(OPEN, holds.c.digest == bindparam("b_digest")))
_BY_TRANSACTION = Prepared(_SELECT.where(holds.c.transaction_id == bindparam("b_id")))
_COUNT_OPEN = Prepared(
    select(func.count()).where(OPEN, holds.c.principal == bindparam("b_principal"))
)
_BACKLOG = (
    select(
        holds.c.state,
        func.count().label("number"),
        func.min(holds.c.created_ms).label("oldest"),
    )
    .where(OPEN, holds.c.expires_ms > bindparam("b_now"))
    .group_by(holds.c.state)
)
_DUE = _SELECT.where(OPEN, holds.c.expires_ms <= bindparam("b_now"))
_OPEN_OF = Prepared(
    _SELECT.where(OPEN, holds.c.principal.in_(bindparam("b_principals", expanding=True)))
)
_INSERT = insert(holds)
_ORPHANED = _SELECT.where(
    OPEN,
    holds.c.state == HoldState.APPROVED.value,
    holds.c.recipe.is_not(None),
    holds.c.owner.is_(None)
    | (holds.c.owner == bindparam("me"))
    | ~sql_exists().where(
        processes.c.id == holds.c.owner, processes.c.lease_until_ms > bindparam("now")
    ),
)
_OWN = (
    update(holds)
    .where(
        holds.c.id == bindparam("b_id"),
        holds.c.state == HoldState.APPROVED.value,
        holds.c.owner.is_not_distinct_from(bindparam("b_was")),
    )
    .values(owner=bindparam("b_me"))
)
_seq = attrgetter("seq")
_MAY_END: Final = (HoldState.HELD, HoldState.APPROVED)


async def add(connection: AsyncConnection, row: HoldRow) -> None:
    """Store a new hold and record its event.

    Raises:
        sqlalchemy.exc.IntegrityError: an open hold has the digest, or any hold the action key.
    """
    hold = row.hold
    shown = {
        "sentence": hold.sentence,
        "reasons": list(hold.reasons),
        "lines": [dict(line) for line in hold.lines],
        "costsLamports": hold.costs_lamports,
        "arrives": dict(hold.arrives),
        "details": dict(hold.details),
        "keyless": row.keyless,
    }
    values = _HOLDS.row(hold) | _ROWS.row(row) | {"shown": jsontext.dumps(shown)}
    await connection.execute(_INSERT, values)
    _record_event(connection, hold, hold.principal)


async def get(connection: AsyncConnection, hold_id: str) -> HoldRow | None:
    """Return one hold by its id."""
    return _hold_row(await _BY_ID.first(connection, {"b_id": hold_id}))


async def by_action_key(connection: AsyncConnection, action_key: str) -> HoldRow | None:
    """Return the hold, open or ended, that a logical action created."""
    return _hold_row(await _BY_ACTION.first(connection, {"b_key": action_key}))


async def is_open_under(connection: AsyncConnection, action_key: str) -> bool:
    """Return whether any money call of an action has an open hold, even from another request.

    Args:
        action_key: the action's key, without a call's number.
    """
    keys = [f"{action_key}:{number}" for number in range(_MOST_CALLS)]
    scopes = [action_scope(key) for key in keys]
    named = select(idempotency_table.c.transaction_id).where(idempotency_table.c.scope.in_(scopes))
    waits = select(holds.c.id).where(
        OPEN, holds.c.action_key.in_(keys) | (ACTION + holds.c.id).in_(named)
    )
    return (await connection.execute(waits.limit(1))).first() is not None


def action_scope(action_key: str) -> str:
    """Return the scope under which an action's key is stored in `idempotency`."""
    return f"action|{action_key}"


async def find_by_key(connection: AsyncConnection, scope: str) -> tuple[HoldRow | None, str]:
    """Return the hold, open or ended, that a key is bound to, and the fingerprint of the key's
    request; None and an empty text if the key is bound to no hold.

    Args:
        scope: the key's scope, as `idempotency` stores it.
    """
    stored = await idempotency.lookup(connection, scope)
    if stored is None or not stored.transaction_id.startswith(ACTION):
        return None, ""
    row = await get(connection, stored.transaction_id.removeprefix(ACTION))
    return row, stored.fingerprint


async def by_transaction(connection: AsyncConnection, transaction_id: str) -> HoldRow | None:
    """Return the hold whose record has this id."""
    return _hold_row(await _BY_TRANSACTION.first(connection, {"b_id": transaction_id}))


async def by_digest(connection: AsyncConnection, digest: str) -> HoldRow | None:
    """Return the open hold with this digest of request and shown terms."""
    return _hold_row(await _BY_DIGEST.first(connection, {"b_digest": digest}))


async def count_open(connection: AsyncConnection, principal: str) -> int:
    """Count the open holds of a principal."""
    return int(await _COUNT_OPEN.scalar(connection, {"b_principal": principal}))


async def backlog(connection: AsyncConnection, now: Moment) -> tuple[dict[str, int], int]:
    """Count the holds that have not expired, by open state. Return the counts, and the milliseconds
    that the oldest undecided hold has waited; 0 if none waits."""
    rows = (await connection.execute(_BACKLOG, {"b_now": now.window_ms})).all()
    counts = {row.state: int(row.number) for row in rows}
    oldest = [int(row.oldest) for row in rows if row.state == HoldState.HELD.value]
    return counts, max(0, now.window_ms - oldest[0]) if oldest else 0


async def open_by_principal(
    connection: AsyncConnection, principals: Collection[str]
) -> dict[str, list[Hold]]:
    """Return the open holds by principal, oldest first; principals without holds are left out."""
    found: dict[str, list[Hold]] = {}
    rows = await _OPEN_OF.all(connection, {"b_principals": list(principals)})
    for row in sorted(rows, key=_seq):
        found.setdefault(row.principal, []).append(row_of(row).hold)
    return found


async def open_rows(connection: AsyncConnection, principal: str) -> list[HoldRow]:
    """Return the open holds of a principal, oldest first."""
    rows = await _OPEN_OF.all(connection, {"b_principals": [principal]})
    return [row_of(row) for row in sorted(rows, key=_seq)]


async def list_holds(
    connection: AsyncConnection,
    *,
    wallet_id: str | None = None,
    principal: str | None = None,
    is_open: bool | None = None,
    limit: int = 50,
    before: str | None = None,
) -> list[Hold]:
    """Return holds, newest first, that are older than the hold `before`."""
    newest: Any = _NEWEST
    if before is not None:
        newest = select(holds.c.seq).where(holds.c.id == before).scalar_subquery()
    # Open holds are few and found by their index; `+ 0` keeps ORDER BY off other indexes.
    seq = holds.c.seq + 0 if is_open else holds.c.seq
    statement = _SELECT.where(seq < newest)
    if wallet_id is not None:
        statement = statement.where(holds.c.wallet_id == wallet_id)
    if principal is not None:
        statement = statement.where(holds.c.principal == principal)
    if is_open is not None:
        statement = statement.where(
            OPEN if is_open else holds.c.state.not_in([each.value for each in _MAY_END])
        )
    rows = await connection.execute(statement.order_by(seq.desc()).limit(limit))
    return [row_of(row).hold for row in rows]


async def overdue_holds(connection: AsyncConnection, window_ms: int) -> list[HoldRow]:
    """Return the open holds whose time has ended."""
    return [row_of(row) for row in await connection.execute(_DUE, {"b_now": window_ms})]


async def move(
    connection: AsyncConnection,
    hold_id: str,
    was: Collection[HoldState],
    state: HoldState,
    *,
    by: str,
    **fields: Any,
) -> HoldRow | None:
    """Change a hold's state if its state is in `was`; else change nothing and return None.

    Of two concurrent transactions only one succeeds, so an approval is used only once.

    Args:
        by: the principal that the audit log names.
        fields: further columns to set.
    """
    statement = (
        update(holds)
        .where(holds.c.id == hold_id, holds.c.state.in_([each.value for each in was]))
        .values(state=state.value, **fields)
        .returning(*COLUMNS)
    )
    row = _hold_row((await connection.execute(statement)).first())
    if row is not None:
        _record_event(connection, row.hold, by)
    return row


async def note_wait(connection: AsyncConnection, hold: Hold, reason: str) -> None:
    """Add to an approved hold's reasons why the hold is not carried out yet."""
    found = await connection.scalar(select(holds.c.shown).where(holds.c.id == hold.id))
    shown = jsontext.loads(found or "{}")
    reasons = [*shown["reasons"][:1], reason]
    if shown["reasons"] != reasons:
        statement = update(holds).where(
            holds.c.id == hold.id, holds.c.state == HoldState.APPROVED.value
        )
        text = jsontext.dumps(shown | {"reasons": reasons})
        await connection.execute(statement.values(shown=text))


async def refuse(
    connection: AsyncConnection,
    row: HoldRow,
    state: HoldState,
    error: str,
    ms: int,
    *,
    by: str,
    **fields: Any,
) -> TransactionRecord | None:
    """End an open hold with a blocked record, which answers its caller from now on.

    Args:
        state: `DENIED`, `EXPIRED`, or `REFUSED` for an approved hold.
        ms: the time of the record.
        by, fields: see `move`.

    Returns:
        The record; None if the hold had ended already, and nothing changed.
    """
    hold = row.hold
    record = TransactionRecord(
        id=str(uuid.uuid4()),
        wallet_id=hold.wallet_id,
        type=hold.type,
        status=TransactionStatus.BLOCKED,
        details=hold.details,
        guardrails_applied=(*(rule for rule in row.applied if rule != GRANTS_RULE), GRANTS_RULE),
        created_ms=ms,
        agent_id=hold.agent_id,
        error=error,
        principal=hold.principal,
    )
    was = (HoldState.APPROVED,) if state is HoldState.REFUSED else _MAY_END
    moved = await move(
        connection, hold.id, was, state, by=by, transaction_id=record.id, owner=None, **fields
    )
    if moved is None:
        return None
    action_key = row.action_key
    if action_key is None or await transactions.by_action_key(connection, action_key) is not None:
        action_key = hold.action
    await transactions.insert_record(
        connection,
        record,
        action_key=action_key,
        trace=row.trace,
        plugin=third_party(hold.chain),
    )
    return record


async def expire(connection: AsyncConnection, row: HoldRow, moment: Moment) -> bool:
    """End a hold whose time is over by the windows' clock; return whether it is over."""
    if row.hold.expires_ms > moment.window_ms:
        return False
    decided = row.hold.state is HoldState.APPROVED
    error = "it was approved, but not carried out in time" if decided else "nobody approved it"
    text = f"{error}; it was held until {iso(row.hold.expires_ms)}"
    await refuse(connection, row, HoldState.EXPIRED, text, moment.database_ms, by=SERVICE)
    return True


async def abandoned_holds(connection: AsyncConnection, me: str) -> list[HoldRow]:
    """Return approved holds with a recipe that no other process carries out, oldest first."""
    parameters = {"me": me, "now": await clock(connection)}
    rows = await connection.execute(_ORPHANED, parameters)
    return [row_of(row) for row in sorted(rows, key=_seq)]


async def claim(connection: AsyncConnection, hold_id: str, me: str, was: str | None) -> bool:
    """Make `me` the process that carries out an approved hold, unless another claimed it."""
    parameters = {"b_id": hold_id, "b_me": me, "b_was": was}
    return (await connection.execute(_OWN, parameters)).rowcount == 1


def _record_event(connection: AsyncConnection, hold: Hold, by: str) -> None:
    data = hold.to_json()
    del data["principal"]
    record_act(connection, _EVENTS[hold.state], data | {"asked": hold.principal}, by=by)


def _hold_row(row: Row[Any] | None) -> HoldRow | None:
    return None if row is None else row_of(row)


def row_of(row: Any) -> HoldRow:
    """Return the hold in a row of `COLUMNS`."""
    shown = jsontext.loads(row.shown)
    ends = len(_HOLDS.columns)
    hold = _HOLDS.read(
        row[:ends],
        sentence=shown["sentence"],
        reasons=tuple(shown["reasons"]),
        lines=tuple(shown["lines"]),
        costs_lamports=int(shown["costsLamports"]),
        arrives={mint: int(units) for mint, units in shown["arrives"].items()},
        details=shown["details"],
        repeats=row.recipe is None,
    )
    return _ROWS.read(row[ends : ends + len(_ROWS.columns)], hold=hold, keyless=shown["keyless"])
