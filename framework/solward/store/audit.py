"""The audit log: append-only rows, each carrying the hash of the one before.

An edited, removed, inserted or moved row breaks the chain where it happened; a chain cut short no
longer ends where `audit_head` says. Whoever can rewrite the whole table and the head can rewrite
history: copy the head's hash elsewhere to be safe from that too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward import jsontext
from solward.clock import iso
from solward.errors import AuditBroken
from solward.store.tables import audit, audit_head

# What the first row carries as the hash before it.
GENESIS_HASH = "0" * 64

_HEAD_ID = 1
_PAGE = 1000
_HEAD = select(audit_head.c.seq, audit_head.c.hash).where(audit_head.c.id == _HEAD_ID)
_LOCK_HEAD = _HEAD.with_for_update()
_AFTER = (
    select(audit)
    .where(audit.c.seq > bindparam("after"))
    .order_by(audit.c.seq)
    .limit(bindparam("at_most"))
)
_APPEND = insert(audit)
_FIRST_HEAD = insert(audit_head)
_MOVE_HEAD = (
    update(audit_head)
    .where(audit_head.c.id == _HEAD_ID)
    .values(seq=bindparam("b_seq"), hash=bindparam("b_hash"))
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row; `data` is its canonical JSON text."""

    seq: int
    created_ms: int
    event: str
    data: str
    previous_hash: str
    hash: str

    def to_json(self) -> dict[str, Any]:
        """For people and clients: `{seq, timestamp, event, data, hash}`."""
        return {
            "seq": self.seq,
            "timestamp": iso(self.created_ms),
            "event": self.event,
            "data": jsontext.loads(self.data),
            "hash": self.hash,
        }


@dataclass(frozen=True, slots=True)
class Chain:
    """A checked chain: how many rows it has, the hash it ends with, and when it was written.

    Attributes:
        first_ms: when its first row was written, in Unix milliseconds; None when it is empty.
        last_ms: when its last row was.
    """

    length: int
    hash: str
    first_ms: int | None
    last_ms: int | None


async def append(connection: AsyncConnection, ms: int, event: str, data: Any) -> int:
    """Add a row inside the caller's write transaction; returns its number, counted from 1.

    On PostgreSQL appenders wait for each other from here to their commit: append last.
    """
    return (await append_many(connection, ms, [(event, data)]))[0]


async def append_many(
    connection: AsyncConnection, ms: int, events: Sequence[tuple[str, Any]]
) -> list[int]:
    """As `append`, for any number of `(event, data)`, in their order."""
    if not events:
        return []
    head = (await connection.execute(_LOCK_HEAD)).first()
    seq, previous = (0, GENESIS_HASH) if head is None else (int(head.seq), str(head.hash))
    rows: list[dict[str, Any]] = []
    for event, data in events:
        seq += 1
        text = jsontext.dumps(data, canonical=True)
        digest = _hash(seq, ms, event, text, previous)
        rows.append(
            {
                "seq": seq,
                "created_ms": ms,
                "event": event,
                "data": text,
                "previous_hash": previous,
                "hash": digest,
            }
        )
        previous = digest
    await connection.execute(_APPEND, rows)
    if head is None:
        await connection.execute(_FIRST_HEAD, {"id": _HEAD_ID, "seq": seq, "hash": previous})
    else:
        await connection.execute(_MOVE_HEAD, {"b_seq": seq, "b_hash": previous})
    return [row["seq"] for row in rows]


async def verify(connection: AsyncConnection) -> Chain:
    """Check the whole chain, which may be appended to meanwhile.

    Raises:
        AuditBroken: naming the first row that was changed, is missing or does not belong.
    """
    seq, previous, first_ms, last_ms = 0, GENESIS_HASH, None, None
    while True:
        # Read before the page: a row of the page may be newer than the head, none may be missing.
        end = await head(connection)
        page = await after(connection, seq, _PAGE)
        for entry in page:
            expected = _hash(entry.seq, entry.created_ms, entry.event, entry.data, previous)
            genuine = (entry.seq, entry.previous_hash, entry.hash)
            if genuine != (seq + 1, previous, expected):
                raise AuditBroken(f"The audit log is broken at entry {seq + 1}")
            seq, previous, last_ms = entry.seq, entry.hash, entry.created_ms
            first_ms = last_ms if first_ms is None else first_ms
        if not page:
            break
    if (seq, previous) != end:
        raise AuditBroken(f"The audit log is broken at entry {seq + 1}: its end was cut or moved")
    return Chain(seq, previous, first_ms, last_ms)


async def head(connection: AsyncConnection) -> tuple[int, str]:
    """Where the chain ends: the last row's number and hash; 0 and `GENESIS_HASH` when empty."""
    found = (await connection.execute(_HEAD)).first()
    return (0, GENESIS_HASH) if found is None else (int(found.seq), str(found.hash))


async def seq_of(connection: AsyncConnection, hash_: str) -> int | None:
    """The number of the row with this hash, None when there is none."""
    return (await connection.execute(select(audit.c.seq).where(audit.c.hash == hash_))).scalar()


async def after(connection: AsyncConnection, seq: int, limit: int) -> list[AuditEntry]:
    """Up to `limit` entries, oldest first, of those numbered above `seq`."""
    rows = await connection.execute(_AFTER, {"after": seq, "at_most": limit})
    return [_entry(row) for row in rows.mappings()]


async def latest(
    connection: AsyncConnection, limit: int, before: int | None = None
) -> list[AuditEntry]:
    """Up to `limit` entries, newest first, of those numbered below `before`."""
    statement = select(audit).order_by(audit.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    return [_entry(row) for row in (await connection.execute(statement)).mappings()]


def _entry(row: Any) -> AuditEntry:
    return AuditEntry(
        int(row["seq"]),
        int(row["created_ms"]),
        row["event"],
        row["data"],
        row["previous_hash"],
        row["hash"],
    )


def _hash(seq: int, ms: int, event: str, data: str, previous: str) -> str:
    # A JSON list keeps the parts apart whatever they hold.
    text = jsontext.dumps([seq, ms, event, data, previous], canonical=True)
    return hashlib.sha256(text.encode()).hexdigest()
