"""Transaction records: stored, found, listed.

Each function works inside the caller's transaction; the engine decides what belongs together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Row, Select, bindparam, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward import jsontext
from solward.audit import outbox
from solward.record import TransactionRecord, TransactionStatus, TransactionType
from solward.vault.store import alerts
from solward.vault.store.tables import transactions, wallets

_NEWEST = 2**62

# The text of the partial index, so that both databases use it.
UNFINISHED = text("transactions.status = 'pending'")


# A record's columns, read by position: for a page of history, lookups by name cost more than the
# query.
RECORD = (
    transactions.c.id,
    transactions.c.wallet_id,
    transactions.c.agent_id,
    transactions.c.principal,
    transactions.c.type,
    transactions.c.status,
    transactions.c.signature,
    transactions.c.details,
    transactions.c.guardrails_applied,
    transactions.c.error,
    transactions.c.fee_lamports,
    transactions.c.created_ms,
    transactions.c.compute_units,
    transactions.c.compute_unit_limit,
    transactions.c.compute_unit_price,
)

_INSERT = insert(transactions)


async def insert_record(
    connection: AsyncConnection,
    record: TransactionRecord,
    *,
    action_key: str | None,
    held_lamports: int = 0,
    owner: str | None = None,
    trace: str | None = None,
) -> None:
    """Store a new record and record its event.

    Args:
        held_lamports: what a pending one reserves (amount + fees + rent).
        owner: the process that drives a pending one.
        trace: what requested it, to follow it through the logs.
    """
    await connection.execute(
        _INSERT,
        {
            "id": record.id,
            "wallet_id": record.wallet_id,
            "agent_id": record.agent_id,
            "principal": record.principal,
            "action_key": action_key,
            "type": record.type,
            "status": record.status.value,
            "signature": record.signature,
            "details": jsontext.dumps(dict(record.details)),
            "guardrails_applied": list(record.guardrails_applied),
            "error": record.error,
            "fee_lamports": record.fee_lamports,
            "held_lamports": held_lamports,
            "created_ms": record.created_ms,
            "owner": owner,
            "trace": trace,
        },
    )
    record_event(connection, record, trace)
    if record.status is TransactionStatus.BLOCKED:
        await alerts.blocked(connection, record, trace)


def record_event(
    connection: AsyncConnection, record: TransactionRecord, trace: str | None = None
) -> None:
    """Record the event of a transaction's new status."""
    outbox.record(connection, f"transaction:{record.status.value}", record.to_json(), trace)


async def set_signature(
    connection: AsyncConnection, transaction_id: str, signature: str, *, owner: str | None = None
) -> bool:
    """Store the signature of a transaction this service did not sign (the faucet's).

    Returns:
        Whether the transaction was still `owner`'s; nothing is stored otherwise.
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


async def get(connection: AsyncConnection, transaction_id: str) -> TransactionRecord | None:
    """One record by its id."""
    return await _first(connection, select(*RECORD).where(transactions.c.id == transaction_id))


async def of_ids(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, TransactionRecord]:
    """id -> its record, of those that exist."""
    statement = select(*RECORD).where(transactions.c.id.in_(transaction_ids))
    found = [record_of(row) for row in await connection.execute(statement)]
    return {record.id: record for record in found}


async def traces(connection: AsyncConnection, seqs: Sequence[int]) -> dict[str, str | None]:
    """transaction id -> what requested it."""
    wanted = select(transactions.c.id, transactions.c.trace).where(transactions.c.seq.in_(seqs))
    return {row.id: row.trace for row in await connection.execute(wanted)}


async def by_action_key(connection: AsyncConnection, action_key: str) -> TransactionRecord | None:
    """The record of a logical action, None when it was never requested."""
    return await _first(connection, select(*RECORD).where(transactions.c.action_key == action_key))


def history_statement(
    wallet_id: str | None, limit: int, before: str | None
) -> Select[tuple[Any, ...]]:
    """The newest records, of one wallet or all, older than the record `before`."""
    newest: Any = _NEWEST
    if before is not None:
        newest = select(transactions.c.seq).where(transactions.c.id == before).scalar_subquery()
    statement = select(*RECORD).where(transactions.c.seq < newest)
    if wallet_id is not None:
        statement = statement.where(transactions.c.wallet_id == wallet_id)
    return statement.order_by(transactions.c.seq.desc()).limit(limit)


async def history(
    connection: AsyncConnection, wallet_id: str | None, limit: int, before: str | None
) -> list[TransactionRecord]:
    """See `history_statement`."""
    rows = await connection.execute(history_statement(wallet_id, limit, before))
    return [record_of(row) for row in rows]


# The newest few of each wallet: the inner statement finds the oldest of them on the same index.
_OLDER = transactions.alias("older")
_RECENT = select(transactions.c.seq, *RECORD).where(
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


async def recent(
    connection: AsyncConnection, wallet_ids: Sequence[str], limit: int
) -> dict[str, list[TransactionRecord]]:
    """Up to `limit` newest records of each wallet, newest first; wallets without any left out."""
    parameters = {"of_wallets": list(wallet_ids), "but": limit - 1}
    found: dict[str, list[TransactionRecord]] = {}
    rows = [tuple(row) for row in await connection.execute(_RECENT, parameters)]
    for _seq, *values in sorted(rows, key=itemgetter(0), reverse=True):
        record = record_of(values)
        found.setdefault(record.wallet_id, []).append(record)
    return found


async def _first(
    connection: AsyncConnection, statement: Select[tuple[Any, ...]]
) -> TransactionRecord | None:
    row: Row[Any] | None = (await connection.execute(statement)).first()
    return None if row is None else record_of(row)


def record_of(values: Sequence[Any]) -> TransactionRecord:
    """The columns of `RECORD`, in their order, as a record."""
    (
        record_id,
        wallet_id,
        agent_id,
        principal,
        kind,
        status,
        signature,
        details,
        applied,
        error,
        fee_lamports,
        created_ms,
        compute_units,
        compute_unit_limit,
        compute_unit_price,
    ) = values
    return TransactionRecord(
        id=record_id,
        wallet_id=wallet_id,
        agent_id=agent_id,
        principal=principal,
        type=kind,
        status=TransactionStatus(status),
        signature=signature,
        details=jsontext.loads(details),
        guardrails_applied=tuple(applied),
        error=error,
        fee_lamports=fee_lamports,
        created_ms=created_ms,
        compute_units=compute_units,
        compute_unit_limit=compute_unit_limit,
        compute_unit_price=compute_unit_price,
    )


async def stake_accounts(connection: AsyncConnection, wallet_id: str) -> list[str]:
    """The accounts of a wallet's stakes that were sent, by its records."""
    rows = await connection.execute(
        select(transactions.c.details).where(
            transactions.c.wallet_id == wallet_id,
            transactions.c.type == TransactionType.STAKE.value,
            transactions.c.signature.is_not(None),
        )
    )
    found = (jsontext.loads(details).get("stakeAccount") for details in rows.scalars())
    return sorted({each for each in found if isinstance(each, str)})


_LAUNCHED = select(transactions.c.details).where(
    transactions.c.wallet_id == bindparam("b_wallet"),
    # As the index has it.
    text("transactions.type = 'token_launch'"),
    transactions.c.status == TransactionStatus.CONFIRMED.value,
    transactions.c.details.contains(bindparam("b_mint")),
)


async def launched(
    connection: AsyncConnection, wallet_id: str, mints: Collection[str]
) -> frozenset[str]:
    """Those of `mints` that a wallet launched: a confirmed record of it says so."""
    found: set[str] = set()
    for mint in mints:
        rows = await connection.execute(_LAUNCHED, {"b_wallet": wallet_id, "b_mint": mint})
        # The text may have it elsewhere, such as in the name.
        if any(jsontext.loads(details).get("mint") == mint for details in rows.scalars()):
            found.add(mint)
    return frozenset(found)
