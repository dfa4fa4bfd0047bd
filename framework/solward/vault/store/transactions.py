"""Statements that store, find and list transaction records.

Each function works inside the caller's transaction; the engine groups the statements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit import alerts
from solward.database import outbox
from solward.database.prepared import Prepared
from solward.database.records import TEXTS, Form, Records, enum_form
from solward.database.tables import transactions, wallets
from solward.support import jsontext
from solward.types.entries import HistoryRequest
from solward.types.record import TransactionRecord, TransactionStatus, recipient_of

_NEWEST = 2**62

# The same text as the partial index has, so that both databases use the index.
UNFINISHED = text("transactions.status = 'pending'")


_RECORDS = Records(
    TransactionRecord,
    transactions,
    status=enum_form(TransactionStatus),
    details=Form(jsontext.loads, lambda details: jsontext.dumps_own(dict(details))),
    guardrails_applied=TEXTS,
)
RECORD = _RECORDS.columns
record_of = _RECORDS.read
"""Return the record in the columns of `RECORD`, in their order."""

_AMONG_IDS = transactions.c.id.in_(bindparam("b_ids", expanding=True))
_INSERT = Prepared(insert(transactions))
_OF_IDS = Prepared(select(*RECORD).where(_AMONG_IDS))


async def insert_record(
    connection: AsyncConnection,
    record: TransactionRecord,
    *,
    action_key: str | None,
    held_lamports: int = 0,
    owner: str | None = None,
    trace: str | None = None,
    plugin: str | None = None,
    refusal_numbers: Mapping[str, str] | None = None,
) -> None:
    """Store a new record and record its event.

    Args:
        held_lamports: the reserved amount, fees and rent, for a pending record.
        owner: the process that works on a pending record.
        trace: the request's origin, to follow the transaction through the logs.
        plugin: the distribution of the third-party plugin that requested the transaction.
        refusal_numbers: the numbers in a blocked record's refusal, by name.
    """
    values = _RECORDS.row(record) | {
        "action_key": action_key,
        "held_lamports": held_lamports,
        "owner": owner,
        "trace": trace,
        "plugin": plugin,
        "recipient": recipient_of(record.type, record.details),
    }
    if refusal_numbers is not None:
        # Only a refused record uses the column, so the statement for other records stays shorter.
        values["refusal_numbers"] = dict(refusal_numbers)
    await _INSERT.run(connection, values)
    record_event(connection, record, trace)
    if record.status is TransactionStatus.BLOCKED:
        await alerts.raise_repeated_blocks(connection, record, trace)


def record_event(
    connection: AsyncConnection, record: TransactionRecord, trace: str | None = None
) -> None:
    """Record the event for a transaction's new status."""
    outbox.record(connection, f"transaction:{record.status.value}", record.to_json(), trace)


async def set_signature(
    connection: AsyncConnection, transaction_id: str, signature: str, *, owner: str | None = None
) -> bool:
    """Store the signature of a transaction that this service did not sign (the faucet's).

    Returns:
        Whether `owner` still owned the transaction; otherwise nothing is stored.
    """
    statement = (
        update(transactions)
        .where(
            transactions.c.id == transaction_id,
            UNFINISHED,
            transactions.c.owner.is_not_distinct_from(owner),
        )
        .values(signature=signature)
    )
    return (await connection.execute(statement)).rowcount == 1


_BY_ID = Prepared(select(*RECORD).where(transactions.c.id == bindparam("b_id")))
_BY_ACTION = Prepared(select(*RECORD).where(transactions.c.action_key == bindparam("b_key")))


async def get(connection: AsyncConnection, transaction_id: str) -> TransactionRecord | None:
    """Return one transaction record by its id."""
    row = await _BY_ID.first(connection, {"b_id": transaction_id})
    return None if row is None else record_of(row)


async def of_ids(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, TransactionRecord]:
    """Return the records with these ids that exist, by id."""
    if not transaction_ids:
        return {}
    rows = await _OF_IDS.all(connection, {"b_ids": list(transaction_ids)})
    return {record.id: record for record in map(record_of, rows)}


async def traces(connection: AsyncConnection, seqs: Sequence[int]) -> dict[str, str | None]:
    """Return the trace of each transaction by its id."""
    wanted = select(transactions.c.id, transactions.c.trace).where(transactions.c.seq.in_(seqs))
    return {row.id: row.trace for row in await connection.execute(wanted)}


async def by_action_key(connection: AsyncConnection, action_key: str) -> TransactionRecord | None:
    """Return the record of a logical action; None if the action was never requested."""
    row = await _BY_ACTION.first(connection, {"b_key": action_key})
    return None if row is None else record_of(row)


def _make_page(columns: Sequence[ColumnElement[Any]], *, of_wallet: bool, older: bool) -> Prepared:
    """Prepare a page of records of one wallet or all, newest first, or older than a record."""
    place: Any = _NEWEST
    if older:
        before = select(transactions.c.seq).where(transactions.c.id == bindparam("b_before"))
        place = before.scalar_subquery()
    statement = select(*columns).where(transactions.c.seq < place)
    if of_wallet:
        statement = statement.where(transactions.c.wallet_id == bindparam("b_wallet"))
    return Prepared(statement.order_by(transactions.c.seq.desc()).limit(bindparam("b_limit")))


_FORMS = tuple(product((False, True), repeat=2))
_HISTORY, _HISTORY_IDS = (
    {
        (of_wallet, older): _make_page(columns, of_wallet=of_wallet, older=older)
        for of_wallet, older in _FORMS
    }
    for columns in (RECORD, (transactions.c.id,))
)


async def history(
    connection: AsyncConnection, wallet_id: str | None, limit: int, before: str | None
) -> list[TransactionRecord]:
    """Return the newest records of one wallet or all that are older than the record `before`."""
    statement, parameters = _page_query(_HISTORY, wallet_id, limit, before)
    return [record_of(row) for row in await statement.all(connection, parameters)]


async def history_ids(
    connection: AsyncConnection, wallet_id: str | None, limit: int, before: str | None
) -> list[str]:
    """Return the ids of the records that `history` returns."""
    statement, parameters = _page_query(_HISTORY_IDS, wallet_id, limit, before)
    return [row[0] for row in await statement.all(connection, parameters)]


def _page_query(
    forms: Mapping[tuple[bool, bool], Prepared],
    wallet_id: str | None,
    limit: int,
    before: str | None,
) -> tuple[Prepared, dict[str, Any]]:
    parameters: dict[str, Any] = {"b_limit": limit}
    if wallet_id is not None:
        parameters["b_wallet"] = wallet_id
    if before is not None:
        parameters["b_before"] = before
    return forms[wallet_id is not None, before is not None], parameters


# The newest records of each wallet; the inner statement finds the oldest one by an index.
_OLDER = transactions.alias("older")
_RECENT = Prepared(
    select(transactions.c.seq, *RECORD).where(
        wallets.c.id.in_(bindparam("of_wallets", expanding=True)),
        transactions.c.wallet_id == wallets.c.id,
        transactions.c.seq
        >= func.coalesce(
            select(_OLDER.c.seq)
            .where(_OLDER.c.wallet_id == wallets.c.id)
            .order_by(_OLDER.c.seq.desc())
            .limit(1)
            .offset(bindparam("but"))
            .scalar_subquery(),
            0,
        ),
    )
)


async def recent(
    connection: AsyncConnection, wallet_ids: Sequence[str], limit: int
) -> dict[str, list[TransactionRecord]]:
    """Return up to `limit` records of each wallet that has any, newest first."""
    parameters = {"of_wallets": list(wallet_ids), "but": limit - 1}
    found: dict[str, list[TransactionRecord]] = {}
    rows = await _RECENT.all(connection, parameters)
    for _seq, *values in sorted(rows, key=itemgetter(0), reverse=True):
        record = record_of(values)
        found.setdefault(record.wallet_id, []).append(record)
    return found


_STAKED = select(transactions.c.details).where(
    transactions.c.wallet_id == bindparam("b_wallet"),
    # The same text as the partial index has.
    text("transactions.type = 'stake'"),
    transactions.c.signature.is_not(None),
)


async def stake_accounts(connection: AsyncConnection, wallet_id: str) -> list[str]:
    """Return the stake accounts in a wallet's sent records."""
    rows = await connection.execute(_STAKED, {"b_wallet": wallet_id})
    found = (jsontext.loads(details).get("stakeAccount") for details in rows.scalars())
    return sorted({each for each in found if isinstance(each, str)})


_LAUNCHED = select(transactions.c.details).where(
    transactions.c.wallet_id == bindparam("b_wallet"),
    # The same text as the partial index has.
    text("transactions.type = 'token_launch'"),
    transactions.c.status == TransactionStatus.CONFIRMED.value,
    transactions.c.details.contains(bindparam("b_mint")),
)


async def launched(
    connection: AsyncConnection, wallet_id: str, mints: Collection[str]
) -> frozenset[str]:
    """Return the `mints` that a confirmed record of the wallet launched."""
    found: set[str] = set()
    for mint in mints:
        rows = await connection.execute(_LAUNCHED, {"b_wallet": wallet_id, "b_mint": mint})
        # A record's details may contain the mint's text elsewhere, such as in the token's name.
        if any(jsontext.loads(details).get("mint") == mint for details in rows.scalars()):
            found.add(mint)
    return frozenset(found)


_LAUNCHES = select(transactions.c.details).where(
    # The same text as the partial index has.
    text("transactions.type = 'token_launch'"),
    transactions.c.status == TransactionStatus.CONFIRMED.value,
)


async def launched_decimals(connection: AsyncConnection) -> dict[str, int]:
    """Return the decimals of every token that a wallet launched, by mint."""
    rows = await connection.execute(_LAUNCHES)
    found = map(jsontext.loads, rows.scalars())
    return {each["mint"]: int(each["decimals"]) for each in found}


# The same text as the partial index has.
_OF_A_PLUGIN = text("transactions.plugin IS NOT NULL")


async def by_plugin(
    connection: AsyncConnection, wallet_id: str, plugin: str, request: HistoryRequest
) -> list[TransactionRecord]:
    """Return a wallet's newest records that a plugin's distribution requested."""
    statement = select(*RECORD).where(
        transactions.c.wallet_id == wallet_id, transactions.c.plugin == plugin, _OF_A_PLUGIN
    )
    if request.before is not None:
        before = select(transactions.c.seq).where(
            transactions.c.id == request.before, transactions.c.plugin == plugin
        )
        statement = statement.where(transactions.c.seq < before.scalar_subquery())
    if request.type is not None:
        statement = statement.where(transactions.c.type == request.type)
    if request.status is not None:
        statement = statement.where(transactions.c.status == request.status)
    if request.since_ms is not None:
        statement = statement.where(transactions.c.created_ms >= request.since_ms)
    statement = statement.order_by(transactions.c.seq.desc()).limit(request.limit)
    return [record_of(row) for row in await connection.execute(statement)]
