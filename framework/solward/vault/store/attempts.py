"""Statements on signed transactions, which are written ahead of sending, and on their ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit import alerts
from solward.database.prepared import Prepared
from solward.database.records import Records, enum_form
from solward.database.tables import U64, attempts, reservations, transactions
from solward.support import jsontext
from solward.support.clock import now_ms as clock_ms
from solward.support.durations import DAY_MS
from solward.telemetry import metrics
from solward.types.errors import TakenOver
from solward.types.guardrail import GRANT_SCOPE
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store import pockets, spending, window_sums
from solward.vault.store.transactions import RECORD, UNFINISHED, record_event, record_of


class AttemptState(StrEnum):
    """The state of one signed transaction (docs/assurance/exactly-once.md)."""

    SIGNED = "signed"
    """Stored before it is sent; the bytes may or may not have left the process."""
    SENT = "sent"
    """Handed to the ledger at least once."""
    UNKNOWN = "unknown"
    """No node knows how the transaction ended; its money stays reserved."""
    LANDED_OK = "landed_ok"
    """On the ledger without error."""
    LANDED_ERR = "landed_err"
    """On the ledger with an error; only the fee was paid."""
    DEAD = "dead"
    """Expired without landing; it can never land."""
    PRESUMED_DEAD = "presumed_dead"
    """Expired, but only one host says that it did not land; its amount counts against limits."""

    @property
    def landed(self) -> bool:
        """True if the transaction is on the ledger, with or without an error."""
        return self in (AttemptState.LANDED_OK, AttemptState.LANDED_ERR)


class PocketStep(StrEnum):
    """The step that an attempt performs, for a record that uses its pocket in steps."""

    FUND = "fund"
    """The wallet fills the pocket."""
    CALL = "call"
    """Only the pocket signs a third party's call; the record has the call's signature."""
    SWEEP = "sweep"
    """Wallet and pocket sign the return of all that the pocket holds."""


HAND_OVER: Final = "hand_over"
"""The step of a payment's attempt if the seller sends the bytes."""

# The same text as the partial index has, so that both databases use the index.
_LIVE = text("attempts.state IN ('signed', 'sent', 'unknown')")


@dataclass(frozen=True, slots=True)
class NetworkCost:
    """The network fee and compute units of a transaction, or their sums over several steps.

    Attributes:
        fee_lamports: an upper bound until the transaction has landed, then the charged fee.
        units: compute units used; None if not known.
        unit_limit: compute-unit limit; None if the bytes set no limit.
        unit_price: in micro-lamports; for several steps, the highest.
    """

    fee_lamports: int = 0
    units: int | None = None
    unit_limit: int | None = None
    unit_price: int | None = None

    def __add__(self, other: NetworkCost) -> NetworkCost:
        return NetworkCost(
            self.fee_lamports + other.fee_lamports,
            _sum_known(sum, self.units, other.units),
            _sum_known(sum, self.unit_limit, other.unit_limit),
            _sum_known(max, self.unit_price, other.unit_price),
        )


def _sum_known(together: Callable[[list[int]], int], *values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return together(known) if known else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One signed transaction, as written ahead; `wire` is sent and resent unchanged.

    Attributes:
        signature: the wallet's signature, which does not name a sponsored payment's transaction.
        step: a `PocketStep` or `HAND_OVER`; empty if this is the record's only attempt and this
            service sends it.
        names: whether `signature` names the transaction, and so is the signature in its record.
        spent: the fee that the record states from now on; not part of the stored attempt.
    """

    transaction_id: str
    attempt_no: int
    signature: str
    wire: bytes
    blockhash: str
    last_valid_block_height: int
    context_slot: int
    max_debit: int
    state: AttemptState = AttemptState.SIGNED
    step: str = ""
    spent: NetworkCost = NetworkCost()
    names: bool = True


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of a transaction: the attempt's final state and the cost.

    Attributes:
        attempt: final attempt state; None if no attempt was ever written.
        held_lamports: the actual debit, which replaces the reserved one.
        details: all of the record's new details; None leaves the details unchanged.
        lowered: asset -> units that still count, for assets of which less left than was reserved.
            Never raises a reservation.
        opened: own token account that was opened -> the rent paid for it, in lamports.
        closed: own token account that was closed -> the rent that came back, in lamports.
        spent: more exact compute units; `fee_lamports` in it is not used.
        signature: the transaction's, if only the ledger told it; None leaves it unchanged.
        owner: the process that releases a reservation without an attempt. An attempt's end is a
            fact of the ledger, which any process may settle.
        ends: False if this ends one step, and other steps follow.
        record: the stored record, whichever process stored it; None until it is stored.
        landed_slot: the slot in which it landed, as a node says; None if it did not land.
    """

    transaction_id: str
    status: TransactionStatus
    attempt: AttemptState | None
    fee_lamports: int
    held_lamports: int
    error: str | None = None
    details: Mapping[str, Any] | None = None
    owner: str | None = None
    lowered: Mapping[str, int] = field(default_factory=dict)
    opened: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    spent: NetworkCost = NetworkCost()
    ends: bool = True
    signature: str | None = None
    record: TransactionRecord | None = None
    landed_slot: int | None = None


_NAMING: Final = frozenset({"", PocketStep.CALL, HAND_OVER})


def _big_int(name: str) -> BindParameter[int]:
    return bindparam(name, type_=U64())


def _increased(column: ColumnElement[int], name: str) -> ColumnElement[int]:
    return func.coalesce(column + _big_int(name), _big_int(name), column)


_PRICE = transactions.c.compute_unit_price
_ATTEMPTS = Records(Attempt, attempts, state=enum_form(AttemptState))
_INSERT = Prepared(insert(attempts))
_SIGNED = Prepared(
    update(transactions)
    .where(
        transactions.c.id == bindparam("b_id"),
        UNFINISHED,
        transactions.c.owner.is_not_distinct_from(bindparam("b_owner")),
    )
    .values(
        signature=func.coalesce(
            bindparam("b_signature", type_=transactions.c.signature.type),
            transactions.c.signature,
        ),
        # The record states the sum over its steps.
        fee_lamports=func.coalesce(transactions.c.fee_lamports, 0) + bindparam("b_fee"),
        compute_units=_increased(transactions.c.compute_units, "b_units"),
        compute_unit_limit=_increased(transactions.c.compute_unit_limit, "b_limit"),
        compute_unit_price=case(
            (transactions.c.compute_unit_price > _big_int("b_price"), _PRICE),
            else_=func.coalesce(_big_int("b_price"), _PRICE),
        ),
    )
)


async def write_ahead(
    connection: AsyncConnection, attempt: Attempt, now_ms: int, *, owner: str | None = None
) -> None:
    """Make signed bytes durable before they leave the process.

    Raises:
        TakenOver: another process owns the transaction; these bytes must never be sent.
        sqlalchemy.exc.IntegrityError: the signature exists, or the transaction has a live attempt.
    """
    signed = {
        "b_id": attempt.transaction_id,
        # A pocket's record is named by its call, which is the requested step.
        "b_signature": attempt.signature if attempt.names and attempt.step in _NAMING else None,
        "b_owner": owner,
        "b_fee": attempt.spent.fee_lamports,
        "b_units": attempt.spent.units,
        "b_limit": attempt.spent.unit_limit,
        "b_price": attempt.spent.unit_price,
    }
    if await _SIGNED.run(connection, signed) != 1:
        raise TakenOver
    await _INSERT.run(connection, _ATTEMPTS.row(attempt) | {"created_ms": now_ms})


_MARK_SENT = Prepared(
    update(attempts)
    .where(
        attempts.c.signature.in_(bindparam("b_signatures", expanding=True)),
        attempts.c.state == AttemptState.SIGNED.value,
    )
    .values(state=AttemptState.SENT.value)
)


async def mark_sent(connection: AsyncConnection, signatures: Collection[str]) -> None:
    """Store that the bytes with these signatures were handed to the ledger."""
    await _MARK_SENT.run(connection, {"b_signatures": list(signatures)})


async def mark_unknown(connection: AsyncConnection, signatures: Collection[str]) -> None:
    """Store that no node can tell how these transactions ended; their money stays reserved.

    Each transaction whose state changes raises an alert.
    """
    changed = await connection.execute(
        update(attempts)
        .where(
            attempts.c.signature.in_(signatures),
            attempts.c.state.in_((AttemptState.SIGNED.value, AttemptState.SENT.value)),
        )
        .values(state=AttemptState.UNKNOWN.value)
        .returning(attempts.c.transaction_id)
    )
    ids = list(changed.scalars())
    for each in (await _lock_rows(connection, ids)).values():
        what = each.record.signature or f"payment {each.record.id}"
        alerts.raise_alert(
            connection, alerts.Alert.ATTEMPT_UNKNOWN, each.record, each.trace, what=what
        )


_SETTLE = Prepared(
    update(transactions)
    .where(
        transactions.c.id == bindparam("b_id"),
        transactions.c.status == TransactionStatus.PENDING.value,
    )
    .values(
        status=bindparam("b_status"),
        error=bindparam("b_error"),
        signature=func.coalesce(
            bindparam("b_signature", type_=transactions.c.signature.type),
            transactions.c.signature,
        ),
        fee_lamports=bindparam("b_fee"),
        compute_units=func.coalesce(_big_int("b_units"), transactions.c.compute_units),
        compute_unit_limit=func.coalesce(_big_int("b_limit"), transactions.c.compute_unit_limit),
        compute_unit_price=func.coalesce(_big_int("b_price"), _PRICE),
        held_lamports=bindparam("b_held"),
        details=func.coalesce(bindparam("b_details", type_=transactions.c.details.type),
                              transactions.c.details),
    )
)  # fmt: skip
_END_ATTEMPT = Prepared(
    update(attempts)
    .where(
        attempts.c.transaction_id == bindparam("b_id"),
        _LIVE,
    )
    .values(state=bindparam("b_state"), landed_slot=_big_int("b_slot"), landed_ms=_big_int("b_ms"))
)
_LOWER = Prepared(
    update(reservations)
    .where(
        reservations.c.transaction_id == bindparam("b_id"),
        reservations.c.asset == bindparam("b_asset"),
        reservations.c.units > bindparam("b_units"),
    )
    .values(units=bindparam("b_units"))
)
# Grants count the SOL that the swap of a token lends its pocket as costs; other scopes count it as
# SOL. The part that did not come back stays counted.
_COUNTED = reservations.alias("counted")
_LENT = Prepared(
    select(reservations.c.scope, reservations.c.units).where(
        reservations.c.transaction_id == bindparam("b_id"),
        reservations.c.scope.startswith(GRANT_SCOPE, autoescape=True),
        reservations.c.asset == spending.COSTS_ASSET,
        reservations.c.units
        > select(func.max(_COUNTED.c.units))
        .where(
            _COUNTED.c.transaction_id == bindparam("b_id"),
            _COUNTED.c.asset == spending.COSTS_ASSET,
            ~_COUNTED.c.scope.startswith(GRANT_SCOPE, autoescape=True),
        )
        .scalar_subquery(),
    )
)
_SET_LENT = Prepared(
    update(reservations)
    .where(
        reservations.c.transaction_id == bindparam("b_id"),
        reservations.c.scope == bindparam("b_scope"),
        reservations.c.asset == spending.COSTS_ASSET,
    )
    .values(units=bindparam("b_units"))
)
# The ledger never had a transaction with such an end, so none of its amounts count any more.
_GIVEN_BACK = frozenset({None, AttemptState.DEAD})


async def settle(
    connection: AsyncConnection, settlements: Sequence[Settlement]
) -> dict[str, TransactionRecord]:
    """End transactions: store their status, cost, and the units that still count against limits.

    A dead transaction releases its amount and its rate slot; a presumed dead transaction releases
    neither. A landed transaction keeps its rate slot and its units, except those `lowered`.
    Transactions that have ended, and releases of transactions that another process owns now, are
    left unchanged.

    Returns:
        The stored records.
    """
    found = await _lock_rows(connection, [item.transaction_id for item in settlements])
    stored = {record_id: each.record for record_id, each in found.items()}
    settlements = [item for item in settlements if _may_end(item, found.get(item.transaction_id))]
    if not settlements:
        return stored
    await _SETTLE.many(
        connection,
        [
            {
                "b_id": item.transaction_id,
                "b_status": item.status.value,
                "b_error": item.error,
                "b_signature": item.signature,
                "b_fee": item.fee_lamports,
                "b_units": item.spent.units,
                "b_limit": item.spent.unit_limit,
                "b_price": item.spent.unit_price,
                "b_held": item.held_lamports,
                "b_details": None if item.details is None else jsontext.dumps(dict(item.details)),
            }
            for item in settlements
        ],
    )
    ended = [item for item in settlements if item.attempt is not None]
    await _end_attempts(connection, ended)
    await _lock_totals(connection, settlements)
    lent = [each for item in settlements for each in await _lent_cost_rows(connection, item)]
    lowered = [
        {"b_id": item.transaction_id, "b_asset": asset, "b_units": max(units, 0)}
        for item in settlements
        for asset, units in item.lowered.items()
    ]
    if lowered:
        await _LOWER.many(connection, lowered)
    if lent:
        await _SET_LENT.many(connection, lent)
    await _note_own_accounts(connection, settlements, stored)
    never_landed = [
        item.transaction_id
        for item in settlements
        if item.status is TransactionStatus.FAILED and item.attempt in _GIVEN_BACK
    ]
    if never_landed:
        await connection.execute(
            delete(reservations).where(reservations.c.transaction_id.in_(never_landed))
        )
        await pockets.release(connection, never_landed)
    for item in settlements:
        record = stored[item.transaction_id]
        after = stored[item.transaction_id] = replace(
            record,
            status=item.status,
            error=item.error,
            signature=item.signature or record.signature,
            fee_lamports=item.fee_lamports,
            compute_units=_known_or_stored(item.spent.units, record.compute_units),
            compute_unit_limit=_known_or_stored(item.spent.unit_limit, record.compute_unit_limit),
            compute_unit_price=_known_or_stored(item.spent.unit_price, record.compute_unit_price),
            details=record.details if item.details is None else item.details,
        )
        record_event(connection, after, found[item.transaction_id].trace)
        if item.attempt is None:
            metrics.RELEASED.inc()
        else:
            metrics.ATTEMPTS_ENDED.labels(item.attempt.value).inc()
    return stored


def _known_or_stored(new: int | None, before: int | None) -> int | None:
    return before if new is None else new


async def _lent_cost_rows(connection: AsyncConnection, item: Settlement) -> list[dict[str, Any]]:
    """Return grants' cost rows that include a loan to a pocket, with the units that still count."""
    costs = item.lowered.get(spending.COSTS_ASSET)
    lent = item.lowered.get(spending.SOL_ASSET)
    if not costs or not lent:
        return []
    return [
        {
            "b_id": item.transaction_id,
            "b_scope": row.scope,
            "b_units": min(int(row.units), costs + lent),
        }
        for row in await _LENT.all(connection, {"b_id": item.transaction_id})
    ]


async def _lock_totals(connection: AsyncConnection, settlements: Sequence[Settlement]) -> None:
    """Lock the totals that these settlements change, all at once and in one order."""
    if connection.dialect.name == "sqlite":
        return
    closed = [account for item in settlements for account in item.closed]
    changed = {
        item.transaction_id
        for item in settlements
        if item.lowered
        or (closed and item.opened)
        or (item.status is TransactionStatus.FAILED and item.attempt in _GIVEN_BACK)
    }
    if closed:
        changed |= await spending.opening_ids(connection, closed)
    await window_sums.lock_totals(connection, changed)


async def _note_own_accounts(
    connection: AsyncConnection,
    settlements: Sequence[Settlement],
    records: Mapping[str, TransactionRecord],
) -> None:
    # Openings are stored first, because an account's opening and closing may be settled together.
    for item in settlements:
        if item.opened:
            record = records[item.transaction_id]
            await spending.note_opened(connection, record.id, record.created_ms, item.opened)
    closed: dict[str, int] = {}
    for item in settlements:
        closed |= item.closed
    if closed:
        await spending.credit_closed(connection, closed)


async def _end_attempts(connection: AsyncConnection, ended: Sequence[Settlement]) -> None:
    await _END_ATTEMPT.many(
        connection,
        [
            {
                "b_id": item.transaction_id,
                "b_state": item.attempt,
                "b_slot": item.landed_slot,
                "b_ms": None if item.landed_slot is None else clock_ms(),
            }
            for item in ended
        ],
    )


async def store_step_ends(connection: AsyncConnection, settlements: Sequence[Settlement]) -> None:
    """Store how steps ended (`Settlement.ends` is False); their records do not change."""
    ended = [item for item in settlements if item.attempt is not None]
    await _end_attempts(connection, ended)
    for item in ended:
        metrics.ATTEMPTS_ENDED.labels(str(item.attempt)).inc()


_LANDED = Prepared(
    select(func.max(attempts.c.landed_slot))
    .join(transactions, transactions.c.id == attempts.c.transaction_id)
    .where(
        transactions.c.wallet_id == bindparam("b_wallet"),
        transactions.c.created_ms >= bindparam("b_made_since"),
        attempts.c.landed_ms >= bindparam("b_since"),
    )
)


async def last_landed_slot(connection: AsyncConnection, wallet_id: str, since_ms: int) -> int:
    """Return the last slot since `since_ms` in which a transaction of a wallet landed, whichever
    process sent it; 0 if none landed. Transactions over a day older than `since_ms` are ignored."""
    made_since_ms = since_ms - DAY_MS
    given = {"b_wallet": wallet_id, "b_made_since": made_since_ms, "b_since": since_ms}
    return int(await _LANDED.scalar(connection, given) or 0)


_RECORDS = Prepared(
    select(*RECORD, transactions.c.owner, transactions.c.trace)
    .where(transactions.c.id.in_(bindparam("of_ids", expanding=True)))
    .order_by(transactions.c.seq)
    .with_for_update()
)


class _StoredRecord(NamedTuple):
    record: TransactionRecord
    owner: str | None
    trace: str | None


async def _lock_rows(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, _StoredRecord]:
    rows = await _RECORDS.all(connection, {"of_ids": list(ids)})
    found = [_StoredRecord(record_of(values), owner, trace) for *values, owner, trace in rows]
    return {each.record.id: each for each in found}


def _may_end(item: Settlement, stored: _StoredRecord | None) -> bool:
    if stored is None or stored.record.status is not TransactionStatus.PENDING:
        return False
    return item.attempt is not None or item.owner == stored.owner


async def live_states(connection: AsyncConnection) -> dict[str, int]:
    """Count the attempts that have not ended, by state."""
    statement = select(attempts.c.state, func.count()).where(_LIVE).group_by(attempts.c.state)
    return {state: int(count) for state, count in await connection.execute(statement)}


_OF_TRANSACTION = Prepared(
    select(*_ATTEMPTS.columns)
    .where(attempts.c.transaction_id == bindparam("b_id"))
    .order_by(attempts.c.id)
)


async def of_transaction(connection: AsyncConnection, transaction_id: str) -> list[Attempt]:
    """Return every attempt of a transaction, oldest first."""
    rows = await _OF_TRANSACTION.all(connection, {"b_id": transaction_id})
    return [_ATTEMPTS.read(row) for row in rows]


async def last_steps(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, str]:
    """Return the last signed step, by transaction id, of records that use their pocket in steps."""
    statement = (
        select(attempts.c.transaction_id, attempts.c.step)
        .where(
            attempts.c.transaction_id.in_(transaction_ids),
            attempts.c.step.in_([each.value for each in PocketStep]),
        )
        .order_by(attempts.c.id)
    )
    return {row.transaction_id: row.step for row in await connection.execute(statement)}


async def pending(
    connection: AsyncConnection, seqs: Sequence[int]
) -> list[tuple[TransactionRecord, int, Attempt | None]]:
    """Return unfinished transactions, with their reserved debit and live attempt, oldest first."""
    statement = (
        select(*RECORD, transactions.c.held_lamports, *_ATTEMPTS.columns)
        .select_from(
            transactions.outerjoin(
                attempts, and_(attempts.c.transaction_id == transactions.c.id, _LIVE)
            )
        )
        .where(UNFINISHED, transactions.c.seq.in_(seqs))
        .order_by(transactions.c.seq)
    )
    found = []
    for row in await connection.execute(statement):
        record = record_of(row[: len(RECORD)])
        held, *values = row[len(RECORD) :]
        attempt = None if values[0] is None else _ATTEMPTS.read(values)
        found.append((record, int(held), attempt))
    return found
