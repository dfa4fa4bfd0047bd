"""The audit log: append-only rows in chains, each carrying the hash of the one before.

Every wallet and every agent has a chain of its own, and the chain "" has what belongs to none: so
those who write at the same time do not wait for each other. An edited, removed, inserted or moved
row breaks its chain where it happened; a chain cut short no longer ends where `audit_heads` says.
Whoever can rewrite all tables can rewrite history: copy the heads elsewhere to be safe from that.

`seq` puts all rows into one order, in which a reader that has seen one row will see none before it
appear. On SQLite, which has one writer, it counts. On PostgreSQL it is made of the transaction's
id, and readers stop before the oldest transaction that is still open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from solward import jsontext
from solward.clock import iso
from solward.errors import AuditBroken, StoreError
from solward.store.tables import audit, audit_heads, audit_offset

# The chain of what belongs to no wallet or agent; it goes on from the time of one chain for all.
SERVICE_CHAIN = ""
# What the first row of that chain carries as the hash before it.
GENESIS_HASH = "0" * 64

# Events of one transaction on PostgreSQL: the bits of `seq` below its id.
_EVENT_BITS = 16
_PAGE = 1000

_OFFSET = select(audit_offset.c.value).where(audit_offset.c.id == 1).scalar_subquery()
_XID: ColumnElement[int] = literal_column("pg_current_xact_id()::text::bigint")
_OLDEST_OPEN: ColumnElement[int] = literal_column("pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
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
_BY_CHAIN = (
    select(audit)
    .where(
        tuple_(audit.c.chain, audit.c.number) > tuple_(bindparam("b_chain"), bindparam("b_number"))
    )
    .order_by(audit.c.chain, audit.c.number)
    .limit(_PAGE)
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


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends, and after which entry it begins now that retention cut the rest.

    Attributes:
        number: of its last entry; 0 when it has none.
        pruned_hash: the hash of entry `pruned_number`, None while nothing was cut.
    """

    number: int
    hash: str
    pruned_number: int = 0
    pruned_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """A checked log: its entries, its chains' ends, and when it was written.

    Attributes:
        entries: how many there are.
        heads: chain -> where it ends.
        first_ms: when its oldest entry was written, in Unix milliseconds; None when it is empty.
        last_ms: when its newest entry was.
    """

    entries: int
    heads: Mapping[str, Head]
    first_ms: int | None
    last_ms: int | None


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
        digest = entry_hash(number + 1, ms, event, text, previous)
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


async def verify(connection: AsyncConnection) -> Log:
    """Check every chain, in the one state of the database that `connection` sees.

    Raises:
        AuditBroken: naming the first row that was changed, is missing or does not belong.
    """
    ends = await heads(connection)
    at = {chain: _beginning(chain, head) for chain, head in ends.items()}
    entries, first_ms, last_ms = 0, None, None
    place = {"b_chain": "", "b_number": -1}
    while page := [_entry(row) for row in (await connection.execute(_BY_CHAIN, place)).mappings()]:
        for entry in page:
            if entry.chain not in at:
                raise AuditBroken(f"The audit log has a chain without a head: {entry.chain!r}")
            number, previous = at[entry.chain]
            expected = entry_hash(entry.number, entry.created_ms, entry.event, entry.data, previous)
            genuine = (entry.number, entry.previous_hash, entry.hash)
            if genuine != (number + 1, previous, expected):
                raise AuditBroken(_broken(entry.chain, number + 1))
            at[entry.chain] = (entry.number, entry.hash)
            entries += 1
            first_ms = entry.created_ms if first_ms is None else min(first_ms, entry.created_ms)
            last_ms = entry.created_ms if last_ms is None else max(last_ms, entry.created_ms)
        place = {"b_chain": page[-1].chain, "b_number": page[-1].number}
    for chain, head in ends.items():
        if at[chain] != (head.number, head.hash):
            raise AuditBroken(f"{_broken(chain, at[chain][0] + 1)}: its end was cut or moved")
    return Log(entries, ends, first_ms, last_ms)


def _beginning(chain: str, head: Head) -> tuple[int, str]:
    if head.pruned_hash is None:
        return 0, genesis(chain)
    return head.pruned_number, head.pruned_hash


def _broken(chain: str, number: int) -> str:
    of = f" of {chain}" if chain else ""
    return f"The audit log is broken at entry {number}{of}"


async def heads(connection: AsyncConnection) -> dict[str, Head]:
    """chain -> where it ends, of every chain."""
    rows = (await connection.execute(select(audit_heads).order_by(audit_heads.c.chain))).all()
    return {row.chain: Head(row.number, row.hash, row.pruned_number, row.pruned_hash)
            for row in rows}  # fmt: skip


async def end(connection: AsyncConnection) -> int:
    """The `seq` of the newest entry before which none can appear any more; 0 when empty."""
    return int((await connection.execute(_END[connection.dialect.name])).scalar_one())


async def find(connection: AsyncConnection, hash_: str) -> AuditEntry | None:
    """The entry with this hash, None when there is none."""
    row = (await connection.execute(select(audit).where(audit.c.hash == hash_))).mappings().first()
    return None if row is None else _entry(row)


async def continues(connection: AsyncConnection, log: Log, chain: str, head: Head) -> bool:
    """Whether a checked log still holds a chain as it once ended; what retention cut, it does."""
    now = log.heads.get(chain)
    if now is None or now.number < head.number:
        return False
    if head.number == 0 or head.number < now.pruned_number:
        return True
    if head.number == now.pruned_number:
        return head.hash == now.pruned_hash
    entry = await find(connection, head.hash)
    return entry is not None and (entry.chain, entry.number) == (chain, head.number)


async def after(connection: AsyncConnection, seq: int, limit: int) -> list[AuditEntry]:
    """Up to `limit` entries, oldest first, of those above `seq`, without gaps."""
    statement = _AFTER[connection.dialect.name]
    rows = await connection.execute(statement, {"after": seq, "at_most": limit})
    return [_entry(row) for row in rows.mappings()]


async def latest(
    connection: AsyncConnection, limit: int, before: int | None = None
) -> list[AuditEntry]:
    """Up to `limit` entries, newest first, of those below `before`."""
    statement = select(audit).order_by(audit.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    return [_entry(row) for row in (await connection.execute(statement)).mappings()]


def _entry(row: Any) -> AuditEntry:
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


def entry_hash(number: int, ms: int, event: str, data: str, previous: str) -> str:
    """The hash of an entry. A JSON list keeps the parts apart whatever they hold."""
    text = jsontext.dumps([number, ms, event, data, previous], canonical=True)
    return hashlib.sha256(text.encode()).hexdigest()
