"""Statements on paid HTTP requests: the offer, the payment and the seller's answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, bindparam, exists, func, insert, literal, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database import outbox
from solward.database.prepared import Prepared
from solward.database.records import Form, Records, enum_form
from solward.database.tables import IS_KEPT, attempts, payments, reservations, transactions
from solward.support import jsontext
from solward.types.events import EventKind
from solward.types.money import from_units
from solward.types.payment import PaymentMode, PaymentState, PaymentView, Served
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store import window_sums
from solward.vault.store.attempts import AttemptState

_STATES: Mapping[str, PaymentState] = {
    AttemptState.SIGNED: PaymentState.HANDED_OVER,
    AttemptState.SENT: PaymentState.HANDED_OVER,
    AttemptState.UNKNOWN: PaymentState.HANDED_OVER,
    AttemptState.LANDED_OK: PaymentState.LANDED,
    AttemptState.LANDED_ERR: PaymentState.LANDED_ERROR,
    AttemptState.DEAD: PaymentState.EXPIRED,
    AttemptState.PRESUMED_DEAD: PaymentState.EXPIRED,
}


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A seller's answer to a paid request.

    Attributes:
        headers: HTTP headers in the received order.
        hint: the base58 signature that the seller named; None if there is none.
        is_whole: False once `forget_answers` has deleted headers and body.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    served: Served
    hint: str | None
    answered_ms: int
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidRequest:
    """A paid HTTP request and its price.

    Attributes:
        protocol: name of the plugin that parsed the offer.
        site: the request's host, with the port if it is not 443.
        url: the request's URL, without query and fragment.
        method: the request's HTTP method.
        fingerprint: SHA-256 of the whole request, hex; equal for a repeated request.
        offer: the whole offer as JSON values, to send the payment again after a crash.
        asset: `SOL` or a mint.
        units: smallest units that leave, splits included.
        decimals: the asset's decimals.
        pay_to: owner of the receiving account.
        source: the paying account: a token account, or the wallet if `asset` is SOL.
        memo: the memo instruction's text; None if there is no memo.
    """

    protocol: str
    mode: PaymentMode
    site: str
    url: str
    method: str
    fingerprint: str
    offer: Mapping[str, Any]
    asset: str
    units: int
    decimals: int
    pay_to: str
    source: str
    memo: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentRow(PaidRequest):
    """A payment as stored; see the table `payments`.

    Attributes:
        source_units: the units in `source` when the payment was assessed.
        message_sha256: SHA-256 of the signed message, hex.
        signer_index: the wallet's index among the signatures.
        answer: None until the seller answered.
    """

    transaction_id: str
    wallet_id: str
    source_units: int
    message_sha256: str
    signer_index: int
    created_ms: int
    answer: StoredAnswer | None = None

    @property
    def served(self) -> Served:
        """The state of the seller's delivery; `UNKNOWN` until the seller answered."""
        return Served.UNKNOWN if self.answer is None else self.answer.served


def payment_view(
    record: TransactionRecord, row: PaymentRow, state: PaymentState, symbol: str | None = None
) -> PaymentView:
    """Return a payment in the form that callers see, without the seller's answer.

    Args:
        record: the same transaction's record.
        state: see `states`.
        symbol: the asset's symbol, if it has one.
    """
    return PaymentView(
        id=record.id,
        wallet_id=record.wallet_id,
        status=record.status,
        state=state,
        served=row.served,
        protocol=row.protocol,
        mode=row.mode,
        site=row.site,
        url=row.url,
        method=row.method,
        asset=row.asset,
        amount=from_units(row.units, row.decimals),
        pay_to=row.pay_to,
        created_ms=record.created_ms,
        symbol=symbol,
        signature=record.signature,
        error=record.error,
    )


def payment_json(record: TransactionRecord, row: PaymentRow, state: PaymentState) -> dict[str, Any]:
    """Return a payment in the form of events, without a symbol."""
    view = payment_view(record, row, state)
    return view.to_json()


_PAYMENTS = Records(
    PaymentRow,
    payments,
    mode=enum_form(PaymentMode),
    # ASCII has as many bytes as characters. `_TOTAL` counts characters, since databases differ in
    # their functions that count bytes.
    offer=Form(jsontext.loads, lambda offer: jsontext.dumps(dict(offer), ascii_only=True)),
)
_ANSWER = ("served", "hint", "answer_status", "answer_headers", "answer_body", "answered_ms")
_COLUMNS = (*_PAYMENTS.columns, *payments.c[_ANSWER])
# A body may have 1 MiB, too much for lists and for the takeover of payments at a start.
_WITHOUT_BODIES = tuple(
    literal(b"").label("answer_body") if each.name == "answer_body" else each for each in _COLUMNS
)


_ADD = Prepared(insert(payments))


async def add(connection: AsyncConnection, row: PaymentRow, principal: str) -> None:
    """Store a payment with its reservation, before anything is signed."""
    values = {"principal": principal, "served": Served.UNKNOWN.value}
    await _ADD.run(connection, _PAYMENTS.row(row) | values)


_NOTE_ANSWER = update(payments).where(payments.c.transaction_id == bindparam("b_id"))
_NOTE_SERVED = Prepared(_NOTE_ANSWER)
_NOTE_UNSERVED = Prepared(_NOTE_ANSWER.where(payments.c.served != Served.YES.value))


async def note_answer(
    connection: AsyncConnection, transaction_id: str, answer: StoredAnswer
) -> None:
    """Store the seller's answer. An answer with a delivery is never replaced by an answer without
    one, because the same request may be sent again after a crash."""
    statement = _NOTE_SERVED if answer.served is Served.YES else _NOTE_UNSERVED
    await statement.run(
        connection,
        {
            "b_id": transaction_id,
            "served": answer.served.value,
            "hint": answer.hint,
            "answer_status": answer.status,
            "answer_headers": jsontext.dumps(list(answer.headers), ascii_only=True),
            "answer_body": answer.body,
            "answered_ms": answer.answered_ms,
        },
    )


async def note_message(
    connection: AsyncConnection, transaction_id: str, message_sha256: str, signer_index: int
) -> None:
    """Store which bytes were signed, if they had to be rebuilt after the reservation."""
    await connection.execute(
        update(payments)
        .where(payments.c.transaction_id == transaction_id)
        .values(message_sha256=message_sha256, signer_index=signer_index)
    )


def record_handed_over(
    connection: AsyncConnection, record: TransactionRecord, row: PaymentRow, trace: str | None
) -> None:
    """Record the event that a payment's bytes are handed over after this commit."""
    body = payment_json(record, row, PaymentState.HANDED_OVER)
    outbox.record(connection, EventKind.PAYMENT_HANDED_OVER, body, trace)


def record_answered(
    connection: AsyncConnection,
    record: TransactionRecord,
    row: PaymentRow,
    state: PaymentState,
) -> None:
    """Record the event of a seller's answer."""
    outbox.record(connection, EventKind.PAYMENT_ANSWERED, payment_json(record, row, state))


_ATTEMPTS = Prepared(
    select(attempts.c.transaction_id, attempts.c.state).where(
        attempts.c.transaction_id.in_(bindparam("b_ids", expanding=True))
    )
)


async def states(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, PaymentState]:
    """Return each payment's state by transaction id; a payment without signed bytes is reserved."""
    rows = await _ATTEMPTS.all(connection, {"b_ids": list(transaction_ids)})
    found = dict.fromkeys(transaction_ids, PaymentState.RESERVED)
    return found | {row.transaction_id: _STATES[row.state] for row in rows}


_TAKEN = select(*window_sums.halves(reservations.c.units)).where(
    reservations.c.scope == bindparam("b_scope"),
    reservations.c.asset.in_(bindparam("b_assets", expanding=True)),
    reservations.c.created_ms > bindparam("b_since"),
    reservations.c.transaction_id.not_in(bindparam("b_but", expanding=True)),
    exists().where(
        attempts.c.transaction_id == reservations.c.transaction_id,
        attempts.c.last_valid_block_height >= bindparam("b_height"),
    ),
)


async def taken_since(
    connection: AsyncConnection,
    wallet_id: str,
    assets: Collection[str],
    height: int,
    since_ms: int,
    but: Collection[str],
) -> int:
    """Return the units of `assets` that a wallet's other records took or may have taken, with bytes
    that could still land at a block height.

    Args:
        since_ms: earlier reservations are ignored, because their bytes cannot land at this height.
        but: ids of transactions to ignore.
    """
    parameters = {
        "b_scope": f"wallet:{wallet_id}",
        "b_assets": list(assets),
        "b_but": list(but),
        "b_height": height,
        "b_since": since_ms,
    }
    high, low = (await connection.execute(_TAKEN, parameters)).one()
    return window_sums.units(high or 0, low or 0)


_OF_ID = Prepared(select(*_COLUMNS).where(payments.c.transaction_id == bindparam("b_id")))


async def get(connection: AsyncConnection, transaction_id: str) -> PaymentRow | None:
    """Return the payment of a record; None if it has none."""
    row = await _OF_ID.first(connection, {"b_id": transaction_id})
    return None if row is None else _payment_row(row)


async def of_transactions(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, PaymentRow]:
    """Return payments by transaction id, without answers' bodies; other ids are left out."""
    statement = select(*_WITHOUT_BODIES).where(payments.c.transaction_id.in_(transaction_ids))
    return {row.transaction_id: _payment_row(row) for row in await connection.execute(statement)}


async def list_payments(
    connection: AsyncConnection, wallet_id: str | None, limit: int, before: str | None
) -> list[PaymentRow]:
    """Return the newest payments before the record `before`, without their answers' bodies."""
    statement = select(*_WITHOUT_BODIES).order_by(payments.c.seq.desc()).limit(limit)
    if wallet_id is not None:
        statement = statement.where(payments.c.wallet_id == wallet_id)
    if before is not None:
        newest = select(payments.c.seq).where(payments.c.transaction_id == before)
        statement = statement.where(payments.c.seq < newest.scalar_subquery())
    return [_payment_row(row) for row in await connection.execute(statement)]


_LAST_PAID = Prepared(
    select(payments.c.units)
    .join(transactions, transactions.c.id == payments.c.transaction_id)
    .where(
        payments.c.wallet_id == bindparam("b_wallet"),
        payments.c.url == bindparam("b_url"),
        payments.c.asset == bindparam("b_asset"),
        transactions.c.status.in_(
            (TransactionStatus.PENDING.value, TransactionStatus.CONFIRMED.value)
        ),
    )
    .order_by(payments.c.seq.desc())
    .limit(1)
)


async def last_paid(
    connection: AsyncConnection, wallet_id: str, url: str, asset: str
) -> int | None:
    """Return the units of a wallet's last payment to a URL in an asset; None if there is none."""
    parameters = {"b_wallet": wallet_id, "b_url": url, "b_asset": asset}
    found: int | None = await _LAST_PAID.scalar(connection, parameters)
    return found


def _payment_row(row: Row[Any]) -> PaymentRow:
    return _PAYMENTS.read(row[: len(_PAYMENTS.columns)], answer=_stored_answer(row))


def _stored_answer(row: Row[Any]) -> StoredAnswer | None:
    if row.answer_status is None:
        return None
    is_whole = row.answer_headers is not None
    headers: Sequence[Sequence[str]] = jsontext.loads(row.answer_headers) if is_whole else ()
    return StoredAnswer(
        status=row.answer_status,
        headers=tuple((str(name), str(value)) for name, value in headers),
        body=bytes(row.answer_body) if is_whole else b"",
        served=Served(row.served),
        hint=row.hint,
        answered_ms=row.answered_ms,
        is_whole=is_whole,
    )


# The same text as the partial indexes have; no other table has a column of this name.
_IS_KEPT = text(IS_KEPT)
# Offer and answer are deleted together: a payment without its offer is not sent again.
_FORGOTTEN: Mapping[str, Any] = {"answer_headers": None, "answer_body": None, "offer": "{}"}
_SIZE = (payments.c.answer_headers, payments.c.answer_body, payments.c.offer)
# The bytes stored for a payment and all newer payments.
_TOTAL = (
    func.sum(sum((func.coalesce(func.length(each), 0) for each in _SIZE), literal(0)))
    .over(order_by=(payments.c.created_ms.desc(), payments.c.seq.desc()))
    .label("total")
)
_SIZES = select(payments.c.created_ms, _TOTAL).where(_IS_KEPT).subquery()
_TOO_MUCH = select(func.max(_SIZES.c.created_ms)).where(_SIZES.c.total > bindparam("b_most"))
_MADE_BEFORE = (
    select(payments.c.seq)
    .where(_IS_KEPT, payments.c.created_ms < bindparam("b_before"))
    .order_by(payments.c.created_ms)
    .limit(bindparam("b_count"))
)
_FORGET_ANSWERS = (
    update(payments).where(payments.c.seq.in_(_MADE_BEFORE), _IS_KEPT).values(**_FORGOTTEN)
)
_PRINCIPAL = (
    select(payments.c.principal)
    .where(payments.c.transaction_id == bindparam("b_id"))
    .scalar_subquery()
)
_PRINCIPALS_SIZES = (
    select(payments.c.seq, _TOTAL).where(_IS_KEPT, payments.c.principal == _PRINCIPAL).subquery()
)
# Locked rows are skipped, because another transaction is making room with them.
_WITHOUT_ROOM = (
    select(payments.c.seq)
    .where(
        payments.c.seq.in_(
            select(_PRINCIPALS_SIZES.c.seq).where(_PRINCIPALS_SIZES.c.total > bindparam("b_most"))
        ),
        payments.c.transaction_id != bindparam("b_id"),
    )
    .with_for_update(skip_locked=True)
)
_MAKE_ROOM = Prepared(
    update(payments).where(payments.c.seq.in_(_WITHOUT_ROOM), _IS_KEPT).values(**_FORGOTTEN)
)


async def make_room(connection: AsyncConnection, transaction_id: str, most_bytes: int) -> None:
    """Delete the oldest offers and answers of a payment's principal until the rest fits into
    `most_bytes`. This payment's offer and answer stay, however large."""
    await _MAKE_ROOM.run(connection, {"b_id": transaction_id, "b_most": most_bytes})


async def answers_beyond(connection: AsyncConnection, most_bytes: int) -> int | None:
    """Return the Unix milliseconds of the newest payment whose offer and answer, together with all
    newer ones, do not fit into `most_bytes`; None if all fit."""
    found = (await connection.execute(_TOO_MUCH, {"b_most": most_bytes})).scalar_one()
    return None if found is None else int(found)


async def forget_answers(connection: AsyncConnection, before_ms: int, count: int) -> int:
    """Delete the offers of up to `count` payments that were made before a time, oldest first, and
    the headers and bodies of their answers.

    The payments and the answers' statuses stay, so that no payment is made again.

    Returns:
        The number of payments.
    """
    parameters = {"b_before": before_ms, "b_count": count}
    return int((await connection.execute(_FORGET_ANSWERS, parameters)).rowcount)
