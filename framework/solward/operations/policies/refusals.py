"""Refused transactions, with the rule, its numbers, and the maximum they could have taken."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.prepared import Prepared, Row
from solward.database.tables import judged_effects, transactions
from solward.support.clock import iso
from solward.types.record import REFUSALS_OF, TransactionRecord, TransactionStatus
from solward.vault.store.transactions import RECORD, record_of


async def refusals(database: Database, wallet_id: str | None, limit: int) -> dict[str, Any]:
    """Return the newest `refusals` of one wallet or all (see `record_json`), from the newest
    `REFUSALS_OF` records."""
    async with database.read() as connection:
        records = await list_refused(connection, wallet_id, limit)
        return {"refusals": await _records_with_reasons(connection, records)}


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


def _refused(*more: ColumnElement[bool]) -> Prepared:
    statement = select(*RECORD).where(*_BLOCKED, *more).order_by(transactions.c.seq.desc())
    return Prepared(statement.limit(bindparam("b_limit")))


_REFUSED = _refused()
_REFUSED_OF_WALLET = _refused(transactions.c.wallet_id == bindparam("b_wallet"))


async def list_refused(
    connection: AsyncConnection, wallet_id: str | None, limit: int, among: int = REFUSALS_OF
) -> list[TransactionRecord]:
    """Return the newest blocked records of one wallet or all, from the `among` newest records."""
    parameters: dict[str, Any] = {"b_limit": limit, "b_among": among}
    if wallet_id is None:
        rows = await _REFUSED.all(connection, parameters)
    else:
        rows = await _REFUSED_OF_WALLET.all(connection, parameters | {"b_wallet": wallet_id})
    return [record_of(row) for row in rows]


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


# Of the refusals in a time, each cause with the number of its refusals, and the newest of them.
_CAUSES_TEXT = (
    "SELECT causes.*, newest.id, newest.created_ms, newest.error,"
    " CAST(newest.refusal_numbers AS text) FROM (SELECT max(seq) AS seq, count(*) AS number,"
    " RULE AS rule, wallet_id, principal, NUMBERS->>'limit', NUMBERS->>'unit', NUMBERS->>'mint'"
    " FROM transactions"
    " WHERE status = 'blocked' AND created_ms > :after AND created_ms <= :until"
    " GROUP BY 3, 4, 5, 6, 7, 8) AS causes JOIN transactions AS newest ON newest.seq = causes.seq"
)
_CAUSES = {
    dialect: Prepared(text(_CAUSES_TEXT.replace("RULE", rule).replace("NUMBERS", numbers)))
    for dialect, rule, numbers in (
        ("postgresql", "guardrails_applied->>-1", "refusal_numbers"),
        # SQLite may have stored malformed JSON, and would then refuse the whole statement.
        (
            "sqlite",
            "CASE WHEN json_valid(guardrails_applied) THEN guardrails_applied->>'$[#-1]' END",
            "CASE WHEN json_valid(refusal_numbers) THEN refusal_numbers END",
        ),
    )
}


async def causes_of_refusals(
    connection: AsyncConnection, after_ms: int, until_ms: int
) -> list[tuple[tuple[str | None, ...], int, Row]]:
    """Return the causes of the refusals in (after, until], each with its number of refusals and a
    row of the newest. A cause is one rule, wallet, principal, and limit on an asset."""
    query = _CAUSES[connection.dialect.name]
    rows = await query.all(connection, {"after": after_ms, "until": until_ms})
    return [(tuple(row[2:8]), row.number, row) for row in rows]


def cause_json(newest: Row, count: int) -> dict[str, Any]:
    """Return a cause as the API shows it, from a row of its newest refusal."""
    rule, wallet_id, principal = newest[2:5]
    transaction_id, ms, error, numbers = newest[8:]
    body = {"count": count, "rule": rule or "", "walletId": wallet_id, "principal": principal}
    body |= {"transactionId": transaction_id, "timestamp": iso(ms), "reason": error or ""}
    # If they cannot be read, the refusal has no numbers.
    with suppress(ValueError, AttributeError):
        shown = json.loads(numbers or "{}").items()
        body["numbers"] = {name: str(number) for name, number in shown}
    return body
