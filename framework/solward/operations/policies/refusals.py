"""Refused transactions, with the rule, its numbers, and the maximum they could have taken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.prepared import Prepared
from solward.database.tables import judged_effects, transactions
from solward.support.durations import DAY_MS
from solward.types.record import REFUSALS_OF, TransactionRecord, TransactionStatus
from solward.vault.store.transactions import RECORD, record_of


async def refusals(database: Database, wallet_id: str | None, limit: int) -> dict[str, Any]:
    """Return the newest `refusals` of one wallet or all (see `record_json`), and `lastDay`.

    `lastDay` has the `count` of 24 hours and the counts `byRule`. If `isComplete` is false, only
    the newest `REFUSALS_OF` transactions were counted.
    """
    async with database.read() as connection:
        now = await database.moment(connection)
        records = await list_refused(connection, wallet_id, limit)
        by_rule, is_complete = await count_refused_by_rule(
            connection, wallet_id, now.database_ms - DAY_MS
        )
        found = await _records_with_reasons(connection, records)
    last_day = {"count": sum(by_rule.values()), "byRule": by_rule, "isComplete": is_complete}
    return {"refusals": found, "lastDay": last_day}


async def record_json(database: Database, record: TransactionRecord) -> dict[str, Any]:
    """Return a record as JSON, with its fee if the fee is known.

    A blocked record has `refusal`: `rule`, `reason` and `numbers`, which may be empty. If it was
    judged by its bytes, it has `couldLeave`: the `lines` that the bytes could take, in the form of
    a hold's lines, and `costsLamports` for fee and rent.
    """
    async with database.read() as connection:
        (found,) = await _records_with_reasons(connection, [record])
    return found


async def _records_with_reasons(
    connection: AsyncConnection, records: Sequence[TransactionRecord]
) -> list[dict[str, Any]]:
    leaving = await _leaving_by_record(connection, [record.id for record in records])
    blocked = [record.id for record in records if record.status is TransactionStatus.BLOCKED]
    numbers = await refusal_numbers(connection, blocked)
    found = []
    for record in records:
        body = record.to_json(fee=True)
        if record.status is TransactionStatus.BLOCKED:
            body["refusal"] = {
                "rule": record.guardrails_applied[-1] if record.guardrails_applied else "",
                "reason": record.error or "",
                "numbers": numbers.get(record.id, {}),
            }
        if record.id in leaving:
            lines, costs = leaving[record.id]
            body["couldLeave"] = {
                "lines": list(map(_hold_line, lines)),
                "costsLamports": str(costs),
            }
        found.append(body)
    return found


def _hold_line(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a stored line in the form of a hold's line."""
    line = stored | {"units": str(stored["units"])}
    line.pop("program", None)
    return line


_AMONG = select(
    func.coalesce(func.max(transactions.c.seq), 0) - bindparam("b_among")
).scalar_subquery()
_BLOCKED = (
    transactions.c.status == TransactionStatus.BLOCKED.value,
    transactions.c.seq > _AMONG,
)


def _refusals(columns: Sequence[ColumnElement[Any]], *, of_wallet: bool) -> Any:
    statement = select(*columns).where(*_BLOCKED)
    if of_wallet:
        statement = statement.where(transactions.c.wallet_id == bindparam("b_wallet"))
    return statement.order_by(transactions.c.seq.desc())


_REFUSED, _REFUSED_SINCE = (
    {
        of_wallet: Prepared(
            _refusals(RECORD, of_wallet=of_wallet).limit(bindparam("b_limit"))
            if since is None
            else _refusals((transactions.c.guardrails_applied,), of_wallet=of_wallet).where(since)
        )
        for of_wallet in (False, True)
    }
    for since in (None, transactions.c.created_ms > bindparam("b_since"))
)
_FIRST_AMONG = Prepared(
    select(transactions.c.created_ms)
    .where(transactions.c.seq <= _AMONG)
    .order_by(transactions.c.seq.desc())
    .limit(1)
)


async def list_refused(
    connection: AsyncConnection, wallet_id: str | None, limit: int, among: int = REFUSALS_OF
) -> list[TransactionRecord]:
    """Return the newest blocked records of one wallet or all, from the `among` newest records."""
    parameters = _wallet_parameter(wallet_id) | {"b_limit": limit, "b_among": among}
    rows = await _REFUSED[wallet_id is not None].all(connection, parameters)
    return [record_of(row) for row in rows]


async def count_refused_by_rule(
    connection: AsyncConnection, wallet_id: str | None, since_ms: int, among: int = REFUSALS_OF
) -> tuple[dict[str, int], bool]:
    """Return rule -> number of transactions refused since a time, largest first, and whether the
    `among` newest records reach back to that time."""
    parameters = _wallet_parameter(wallet_id) | {"b_since": since_ms, "b_among": among}
    rows = await _REFUSED_SINCE[wallet_id is not None].all(connection, parameters)
    counted = Counter(applied[-1] for (applied,) in rows if applied)
    before = await _FIRST_AMONG.first(connection, {"b_among": among})
    return dict(counted.most_common()), before is None or before[0] <= since_ms


def _wallet_parameter(wallet_id: str | None) -> dict[str, Any]:
    return {} if wallet_id is None else {"b_wallet": wallet_id}


_NUMBERS = Prepared(
    select(transactions.c.id, transactions.c.refusal_numbers).where(
        transactions.c.id.in_(bindparam("b_ids", expanding=True)),
        transactions.c.refusal_numbers.is_not(None),
    )
)


async def refusal_numbers(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, dict[str, str]]:
    """Return record id -> numbers stored with the refusal, for records that have numbers."""
    if not transaction_ids:
        return {}
    rows = await _NUMBERS.all(connection, {"b_ids": list(transaction_ids)})
    return dict(rows)


_LINES = Prepared(
    select(
        judged_effects.c.transaction_id, judged_effects.c.lines, judged_effects.c.costs_lamports
    ).where(judged_effects.c.transaction_id.in_(bindparam("ids", expanding=True)))
)


async def _leaving_by_record(
    connection: AsyncConnection, transaction_ids: Sequence[str]
) -> dict[str, tuple[list[dict[str, Any]], int]]:
    """Return id -> the lines and the lamports of fee and rent that the bytes could take, for each
    transaction that was judged by its bytes."""
    if not transaction_ids:
        return {}
    rows = await _LINES.all(connection, {"ids": [*transaction_ids]})
    return {own_id: (json.loads(lines), costs) for own_id, lines, costs in rows}
