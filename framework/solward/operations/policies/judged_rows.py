"""What was judged, and what of it still counts: read for new grants, replays and refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.tables import holds, judged_effects, reservations, transactions
from solward.types.guardrail import SOL
from solward.types.record import HoldState, TransactionStatus
from solward.vault.store.transactions import UNFINISHED

# Ids of one query.
_PAGE = 500

_RESERVED = (
    select(judged_effects, reservations.c.created_ms.label("reserved_ms"))
    .join(reservations, reservations.c.transaction_id == judged_effects.c.transaction_id)
    .where(reservations.c.asset == SOL, reservations.c.created_ms > bindparam("b_after"))
    .order_by(reservations.c.created_ms)
)
_COUNTING = _RESERVED.where(reservations.c.scope == bindparam("b_scope"))
# Of these every transaction has reservations; schedules, skills, plugins and sites stand in its
# chain alone.
_SCOPES = ("wallet:", "agent:", "key:")
_LOCK_PENDING = (
    select(transactions.c.id)
    .where(transactions.c.id.in_(bindparam("ids", expanding=True)), UNFINISHED)
    .order_by(transactions.c.seq)
    .with_for_update()
)
_KEPT = select(reservations.c.transaction_id, reservations.c.asset, reservations.c.units).where(
    reservations.c.transaction_id.in_(bindparam("ids", expanding=True)),
    reservations.c.scope == literal("wallet:") + bindparam("b_wallet"),
)


@dataclass(frozen=True, slots=True)
class Counting:
    """A transaction that counts in a scope: as it was judged, and what of it still counts.

    Attributes:
        row: of `judged_effects`, column -> value.
        reserved_ms: the stamp of its reservations.
        kept: asset -> units, which its end may have lowered.
    """

    row: Mapping[str, Any]
    reserved_ms: int
    kept: Mapping[str, int]


async def counting(connection: AsyncConnection, who: str, after_ms: int) -> list[Counting]:
    """A principal's transactions that still count since a time, oldest first."""
    if who.startswith(_SCOPES):
        rows = await connection.execute(_COUNTING, {"b_scope": who, "b_after": after_ms})
        found = [dict(row._mapping) for row in rows]
    else:
        found = await _through(connection, who, after_ms)
    by_wallet: dict[str, list[str]] = {}
    for row in found:
        by_wallet.setdefault(row["wallet_id"], []).append(row["transaction_id"])
    kept: dict[str, dict[str, int]] = {}
    for wallet_id, ids in by_wallet.items():
        for start in range(0, len(ids), _PAGE):
            # Until the caller's transaction ends no end of theirs changes what still counts.
            await connection.execute(_LOCK_PENDING, {"ids": ids[start : start + _PAGE]})
            parameters = {"ids": ids[start : start + _PAGE], "b_wallet": wallet_id}
            for id_, asset, units in await connection.execute(_KEPT, parameters):
                kept.setdefault(id_, {})[asset] = int(units)
    return [
        Counting(row, int(row.pop("reserved_ms")), kept[row["transaction_id"]])
        for row in found
        if row["transaction_id"] in kept
    ]


async def _through(connection: AsyncConnection, who: str, after_ms: int) -> list[dict[str, Any]]:
    statement = _RESERVED.where(
        reservations.c.scope == literal("wallet:") + judged_effects.c.wallet_id,
        judged_effects.c.chain.contains(f'"{who}"', autoescape=True),
    )
    rows = await connection.execute(statement, {"b_after": after_ms})
    # Databases compare letters each in its own way.
    return [dict(row._mapping) for row in rows if who in json.loads(row.chain)]


class JudgedRow(NamedTuple):
    """What was judged, and what of it still counts.

    Attributes:
        row: of `judged_effects`, column -> value.
        kept: asset -> units of a transaction that failed, `COSTS` too; None where nothing ended it
            like this.
        is_done: the hold was approved, and what it asked for was judged for itself.
    """

    row: Mapping[str, Any]
    kept: Mapping[str, int] | None
    is_done: bool


_FIRST_JUDGED = select(func.min(judged_effects.c.seq), func.count()).where(
    judged_effects.c.created_ms > bindparam("b_after")
)
_PAGE_JUDGED = (
    select(judged_effects, transactions.c.status, holds.c.state)
    .outerjoin(transactions, transactions.c.id == judged_effects.c.transaction_id)
    .outerjoin(holds, holds.c.id == judged_effects.c.transaction_id)
    .where(judged_effects.c.seq >= bindparam("b_seq"))
    .order_by(judged_effects.c.seq)
    .limit(bindparam("b_size"))
)
_KEPT_BY_FAILED = select(
    reservations.c.transaction_id, reservations.c.asset, reservations.c.units
).where(
    reservations.c.transaction_id.in_(bindparam("ids", expanding=True)),
    reservations.c.scope.startswith("wallet:"),
)


async def first_judged(connection: AsyncConnection, after_ms: int) -> tuple[int, int]:
    """Since a time: the `seq` of what was judged first, and how much was; 0, 0 for nothing."""
    row = (await connection.execute(_FIRST_JUDGED, {"b_after": after_ms})).one()
    return int(row[0] or 0), int(row[1])


async def judged_page(connection: AsyncConnection, seq: int, size: int = _PAGE) -> list[JudgedRow]:
    """What was judged from `seq` on, in the order in which it was; at most `size`."""
    found = await connection.execute(_PAGE_JUDGED, {"b_seq": seq, "b_size": size})
    rows = [dict(row._mapping) for row in found]
    failed = [
        row["transaction_id"] for row in rows if row.pop("status") == TransactionStatus.FAILED.value
    ]
    kept: dict[str, dict[str, int]] = {id_: {} for id_ in failed}
    if failed:
        for id_, asset, units in await connection.execute(_KEPT_BY_FAILED, {"ids": failed}):
            kept[id_][asset] = int(units)
    return [
        JudgedRow(
            row, kept.get(row["transaction_id"]), row.pop("state") == HoldState.EXECUTED.value
        )
        for row in rows
    ]


_LINES = Prepared(
    select(
        judged_effects.c.transaction_id, judged_effects.c.lines, judged_effects.c.costs_lamports
    ).where(judged_effects.c.transaction_id.in_(bindparam("ids", expanding=True)))
)


async def leaving(
    connection: AsyncConnection, transaction_ids: Sequence[str]
) -> dict[str, tuple[list[dict[str, Any]], int]]:
    """id -> the lines and lamports of fee and rent that its bytes could take, of those judged by
    their bytes."""
    if not transaction_ids:
        return {}
    rows = await _LINES.all(connection, {"ids": [*transaction_ids]})
    return {own_id: (json.loads(lines), costs) for own_id, lines, costs in rows}
