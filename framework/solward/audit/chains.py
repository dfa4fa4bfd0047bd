"""The audit log: append-only rows in chains, each carrying the hash of the one before.

Every wallet and every agent has a chain of its own, and the chain "" has what belongs to none: so
those who write at the same time do not wait for each other. An edited, removed, inserted or moved
row breaks its chain where it happened; a chain cut short no longer ends where `audit_heads` says.
Whoever can rewrite all tables can rewrite history: copy the heads elsewhere to be safe from that.

`seq` puts all rows into one order, in which a reader that has seen one row will see none before it
appear. On SQLite, which has one writer, it counts. On PostgreSQL it is made of the transaction's
id, and readers stop before the oldest transaction that is still open; there the rows of
transactions that ran at the same time may have another order than in the chain they share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from solward import jsontext
from solward.audit.tables import audit, audit_heads, audit_offset
from solward.clock import iso
from solward.errors import StoreError

# The chain of what belongs to no wallet or agent; it goes on from the time of one chain for all.
SERVICE_CHAIN = ""
# What the first row of that chain carries as the hash before it.
GENESIS_HASH = "0" * 64

# Events of one transaction on PostgreSQL: the bits of `seq` below its id.
_EVENT_BITS = 16

_OFFSET = select(audit_offset.c.value).where(audit_offset.c.id == 1).scalar_subquery()
_XID: ColumnElement[int] = literal_column("pg_current_xact_id()::text::bigint")
_OLDEST_OPEN: ColumnElement[int] = literal_column(
    "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
)
_NEWEST = select(func.coalesce(func.max(audit.c.seq), 0)).scalar_subquery()


def _numbered_from(dialect: str) -> ColumnElement[int]:
    """The first `seq` of a transaction, less one."""
    if dialect == "sqlite":
        return _NEWEST
    return _OFFSET + _XID.op("<<")(_EVENT_BITS) - 1


def _settled(dialect: str) -> ColumnElement[bool]:
    """Rows before which none can appear any more."""
    if dialect == "sqlite":
        return true()
    return audit.c.seq < _OFFSET + _OLDEST_OPEN.op("<<")(_EVENT_BITS)


def _heads(dialect: str) -> Select[tuple[Any, ...]]:
    heads = audit_heads.c
    return (
        select(heads.chain, heads.number, heads.hash, _numbered_from(dialect).label("base"))
        .where(heads.chain.in_(bindparam("of_chains", expanding=True)))
        # In this order, so that two transactions with the same chains wait for each other once.
        .order_by(heads.chain)
        .with_for_update(of=audit_heads)
    )


def _after(dialect: str) -> Select[tuple[Any, ...]]:
    return (
        select(audit)
        .where(and_(audit.c.seq > bindparam("after"), _settled(dialect)))
        .order_by(audit.c.seq)
        .limit(bindparam("at_most"))
    )


# Built once: making a statement costs more than running it on SQLite.
_DIALECTS = ("sqlite", "postgresql")
_LOCK_HEADS = {name: _heads(name) for name in _DIALECTS}
_AFTER = {name: _after(name) for name in _DIALECTS}
_END = {
    name: select(func.coalesce(func.max(audit.c.seq), 0)).where(_settled(name))
    for name in _DIALECTS
}
_FIRST_HEADS = {
    "sqlite": sqlite.insert(audit_heads).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(audit_heads).on_conflict_do_nothing(),
}
_APPEND = insert(audit)
_MOVE_HEAD = (
    update(audit_heads)
    .where(audit_heads.c.chain == bindparam("b_chain"))
    .values(number=bindparam("b_number"), hash=bindparam("b_hash"))
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row; `data` is its canonical JSON text.

    Attributes:
        seq: its place among all rows.
        chain: `wallet:<id>`, `agent:<id>`, or "" for what belongs to none.
        number: its place in the chain, counted from 1.
    """

    seq: int
    chain: str
    number: int
    created_ms: int
    event: str
    data: str
    previous_hash: str
    hash: str

    def to_json(self) -> dict[str, Any]:
        """For people and clients: `{seq, timestamp, event, data, chain, number, hash}`."""
        return {
            "seq": self.seq,
            "timestamp": iso(self.created_ms),
            "event": self.event,
            "data": jsontext.loads(self.data),
            "chain": self.chain,
            "number": self.number,
            "hash": self.hash,
        }


def genesis(chain: str) -> str:
    """What a chain's first entry carries as the hash before it: no chain passes for another."""
    if chain == SERVICE_CHAIN:
        return GENESIS_HASH
    return hashlib.sha256(f"solward-audit/{chain}".encode()).hexdigest()


async def append_many(
    connection: AsyncConnection, ms: int, events: Sequence[tuple[str, str, Any]]
) -> list[int]:
    """Add a row for each `(chain, event, data)` inside the caller's write transaction.

    Appenders to the same chain wait for each other from here to their commit on PostgreSQL:
    append last.

    Returns:
        Their `seq`, in the order given.

    Raises:
        StoreError: more than 65,536 of them on PostgreSQL.
    """
    if not events:
        return []
    dialect = connection.dialect.name
    ends, base = await _lock(connection, sorted({chain for chain, _event, _data in events}))
    if dialect != "sqlite" and len(events) > 1 << _EVENT_BITS:
        raise StoreError("One transaction cannot tell more than 65536 events")
    rows: list[dict[str, Any]] = []
    for seq, (chain, event, data) in enumerate(events, base + 1):
        number, previous = ends[chain]
        text = jsontext.dumps(data, canonical=True)
        digest = entry_hash(seq, ms, event, text, previous)
        ends[chain] = (number + 1, digest)
        rows.append(
            {
                "seq": seq,
                "chain": chain,
                "number": number + 1,
                "created_ms": ms,
                "event": event,
                "data": text,
                "previous_hash": previous,
                "hash": digest,
            }
        )
    await connection.execute(_APPEND, rows)
    await connection.execute(
        _MOVE_HEAD,
        [
            {"b_chain": chain, "b_number": number, "b_hash": digest}
            for chain, (number, digest) in ends.items()
        ],
    )
    return [row["seq"] for row in rows]


async def _lock(
    connection: AsyncConnection, chains: list[str]
) -> tuple[dict[str, tuple[int, str]], int]:
    """Where each chain ends, new ones included, and the number before this transaction's first."""
    dialect = connection.dialect.name
    rows = (await connection.execute(_LOCK_HEADS[dialect], {"of_chains": chains})).all()
    if len(rows) < len(chains):
        missing = set(chains) - {row[0] for row in rows}
        begun = [{"chain": c, "number": 0, "hash": genesis(c)} for c in sorted(missing)]
        # Whoever begins the same chain at this moment is waited for, and then has begun it.
        await connection.execute(_FIRST_HEADS[dialect], begun)
        rows = (await connection.execute(_LOCK_HEADS[dialect], {"of_chains": chains})).all()
    return {chain: (int(number), hash_) for chain, number, hash_, _base in rows}, int(rows[0][3])


async def end(connection: AsyncConnection) -> int:
    """The `seq` of the newest entry before which none can appear any more; 0 when empty."""
    return int((await connection.execute(_END[connection.dialect.name])).scalar_one())


async def after(connection: AsyncConnection, seq: int, limit: int) -> list[AuditEntry]:
    """Up to `limit` entries, oldest first, of those above `seq`, without gaps."""
    statement = _AFTER[connection.dialect.name]
    rows = await connection.execute(statement, {"after": seq, "at_most": limit})
    return [entry_of(row) for row in rows.mappings()]


async def latest(
    connection: AsyncConnection, limit: int, before: int | None = None
) -> list[AuditEntry]:
    """Up to `limit` entries, newest first, of those below `before` that `after` gives too."""
    settled = _settled(connection.dialect.name)
    statement = select(audit).where(settled).order_by(audit.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    return [entry_of(row) for row in (await connection.execute(statement)).mappings()]


def entry_of(row: Any) -> AuditEntry:
    """A row of the table by its columns' names."""
    return AuditEntry(
        int(row["seq"]),
        row["chain"],
        int(row["number"]),
        int(row["created_ms"]),
        row["event"],
        row["data"],
        row["previous_hash"],
        row["hash"],
    )


def entry_hash(seq: int, ms: int, event: str, data: str, previous: str) -> str:
    """The hash of an entry. A JSON list keeps the parts apart whatever they hold.

    Its chain and its number are held by what comes before it: counted from the chain's genesis.
    """
    text = jsontext.dumps([seq, ms, event, data, previous], canonical=True)
    return hashlib.sha256(text.encode()).hexdigest()
