"""What was refused and why: the rule, its numbers, and what the transaction could have taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.operations.policies import judged_rows
from solward.support.durations import DAY_MS
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store import transactions as store


async def refusals(database: Database, wallet_id: str | None, limit: int) -> dict[str, Any]:
    """`refusals`, the newest ones of a wallet or all (see `record_json`), and `lastDay`: how many
    in 24 hours, `byRule`, and whether that is all of them (`isComplete`) or of the newest
    `REFUSALS_OF` transactions."""
    async with database.read() as connection:
        now = await database.moment(connection)
        records = await store.refused(connection, wallet_id, limit)
        by_rule, is_complete = await store.refused_by_rule(
            connection, wallet_id, now.database_ms - DAY_MS
        )
        found = await _with_reasons(connection, records)
    last_day = {"count": sum(by_rule.values()), "byRule": by_rule, "isComplete": is_complete}
    return {"refusals": found, "lastDay": last_day}


async def record_json(database: Database, record: TransactionRecord) -> dict[str, Any]:
    """A record, with its fee where that is known.

    A blocked one has `refusal` (`rule`, `reason` and `numbers`, empty where the reason says none);
    what was judged by its bytes has `couldLeave`: the `lines` that these could take, as a hold has
    them, and `costsLamports` of fee and rent.
    """
    async with database.read() as connection:
        (found,) = await _with_reasons(connection, [record])
    return found


async def _with_reasons(
    connection: AsyncConnection, records: Sequence[TransactionRecord]
) -> list[dict[str, Any]]:
    leaving = await judged_rows.leaving(connection, [record.id for record in records])
    blocked = [record.id for record in records if record.status is TransactionStatus.BLOCKED]
    numbers = await store.refusal_numbers(connection, blocked)
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
                "lines": list(map(_line, lines)),
                "costsLamports": str(costs),
            }
        found.append(body)
    return found


def _line(stored: dict[str, Any]) -> dict[str, Any]:
    """As a hold has it."""
    line = stored | {"units": str(stored["units"])}
    line.pop("program", None)
    return line
