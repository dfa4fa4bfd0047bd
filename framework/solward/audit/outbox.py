"""The audit log's write side: events recorded with what they describe, published after the commit.

A transactional outbox: an event is durable exactly if the change it describes is, and nobody sees
one of a transaction that was rolled back. `Database.write` begins and appends; whoever changes rows
records.

Every wallet and every agent has a chain of its own, and the chain "" has what belongs to neither,
so writers at the same time do not wait for each other. Each row carries the hash of the one before:
an edited, removed, inserted or moved row breaks its chain there, and a chain cut short no longer
ends where `audit_heads` says. Whoever can rewrite all tables can rewrite history: copy the heads
elsewhere.

`seq` puts all rows into one order in which no row appears before one that was already read. On
SQLite, which has one writer, it counts. On PostgreSQL it is made of the transaction's id, and
readers stop before the oldest transaction that is still open; rows of concurrent transactions may
have another order there than in the chain they share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from solward import jsontext
from solward.audit.tables import audit, audit_heads, audit_offset
from solward.clock import now_ms
from solward.errors import StoreError
from solward.events import Event, EventKind
from solward.telemetry import metrics

# The chain of what belongs to no wallet or agent.
SERVICE_CHAIN = ""
# The previous hash of that chain's first row.
GENESIS_HASH = "0" * 64

# Events of one transaction on PostgreSQL: the bits of `seq` below its id.
_EVENT_BITS = 16

_OFFSET = select(audit_offset.c.value).where(audit_offset.c.id == 1).scalar_subquery()
_XID: ColumnElement[int] = literal_column("pg_current_xact_id()::text::bigint")
_OLDEST_OPEN: ColumnElement[int] = literal_column(
    "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
)
# Below this `seq` no row can appear any more on PostgreSQL.
OPEN_FROM = _OFFSET + _OLDEST_OPEN.op("<<")(_EVENT_BITS)

# The first `seq` of a transaction, less one.
_BASE: dict[str, ColumnElement[int]] = {
    "sqlite": select(func.coalesce(func.max(audit.c.seq), 0)).scalar_subquery(),
    "postgresql": _OFFSET + _XID.op("<<")(_EVENT_BITS) - 1,
}


def _heads(dialect: str) -> Select[tuple[Any, ...]]:
    heads = audit_heads.c
    return (
        select(heads.chain, heads.number, heads.hash, _BASE[dialect].label("base"))
        .where(heads.chain.in_(bindparam("of_chains", expanding=True)))
        # Sorted, so that two transactions with the same chains cannot deadlock.
        .order_by(heads.chain)
        .with_for_update(of=audit_heads)
    )


# Built once: making a statement costs more than running it on SQLite.
_LOCK_HEADS = {name: _heads(name) for name in _BASE}
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

# Of execution options of the connection, where a transaction's events are.
_KEY = "solward_events"

_log = structlog.get_logger(__name__)

_LINES: dict[str, str] = {
    EventKind.TRANSACTION_PENDING: "transaction_reserved",
    EventKind.TRANSACTION_CONFIRMED: "transaction_settled",
    EventKind.TRANSACTION_FAILED: "transaction_settled",
    EventKind.TRANSACTION_BLOCKED: "transaction_blocked",
}


def begin(connection: AsyncConnection) -> None:
    """Let events be recorded in the transaction of this connection."""
    assert connection.sync_connection is not None
    connection.sync_connection.execution_options(**{_KEY: []})


def record(connection: AsyncConnection, event: str, data: Any, trace: str | None = None) -> None:
    """Record an event of this write transaction.

    Args:
        event: one of `solward.events.EventKind`.
        data: JSON-able, without secrets; must not be changed afterwards.
        trace: what requested it, for the log of this process alone.

    Raises:
        RuntimeError: the connection is not inside `Database.write`.
    """
    recorded = _recorded(connection)
    if recorded is None:
        raise RuntimeError(f"{event} was recorded outside a write transaction")
    recorded.append((event, data, trace))


async def append(connection: AsyncConnection) -> list[Event]:
    """Append what was recorded to the audit log: the transaction's last statements.

    Last, because on PostgreSQL appenders to one chain wait for each other from here to their
    commit.
    """
    recorded = _recorded(connection)
    if not recorded:
        return []
    ms = now_ms()
    rows = [(chain_of(event, data), event, data) for event, data, _trace in recorded]
    seqs = await append_many(connection, ms, rows)
    return [Event(seq, ms, *each) for seq, each in zip(seqs, recorded, strict=True)]


def publish(events: Sequence[Event]) -> None:
    """Count and log committed events.

    Log line and count of a transaction follow its event, so that of several processes only the one
    that stored its end reports it.
    """
    for event in events:
        metrics.AUDIT_EVENTS.labels(event.event).inc()
        line = _LINES.get(event.event)
        if line is not None:
            metrics.TRANSACTIONS.labels(event.data["type"], event.data["status"]).inc()
            if event.event == EventKind.TRANSACTION_BLOCKED:
                metrics.GUARDRAIL_BLOCKS.labels(event.data["guardrailsApplied"][-1]).inc()
            _log.info(line, **_log_fields(event))
        elif event.event == EventKind.ALERT_RAISED:
            metrics.ALERTS.labels(event.data["alert"]).inc()
            _log.error("alert_raised", **event.data, trace=event.trace)


def _log_fields(event: Event) -> dict[str, Any]:
    record = event.data
    fields = {
        "transaction_id": record["id"],
        "wallet_id": record["walletId"],
        "agent_id": record.get("agentId"),
        "principal": record["principal"],
        "type": record["type"],
        "status": record["status"],
        "signature": record.get("signature"),
        "error": record.get("error"),
        "trace": event.trace,
    }
    return {name: value for name, value in fields.items() if value is not None}


def chain_of(event: str, data: Any) -> str:
    """The chain an event belongs to: its wallet's, its agent's or the service's."""
    kind = event.partition(":")[0]
    if kind == "transaction":
        return f"wallet:{data['walletId']}"
    if kind == "agent":
        return f"agent:{data['agentId']}"
    return SERVICE_CHAIN


def _recorded(connection: AsyncConnection) -> list[tuple[str, Any, str | None]] | None:
    assert connection.sync_connection is not None
    found: list[tuple[str, Any, str | None]] | None = (
        connection.sync_connection.get_execution_options().get(_KEY)
    )
    return found


def genesis(chain: str) -> str:
    """The previous hash of a chain's first entry: of its name, so none passes for another."""
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
    """Number and hash at which each chain ends, and the `seq` before this transaction's first."""
    dialect = connection.dialect.name
    rows = (await connection.execute(_LOCK_HEADS[dialect], {"of_chains": chains})).all()
    if len(rows) < len(chains):
        missing = set(chains) - {row[0] for row in rows}
        begun = [{"chain": c, "number": 0, "hash": genesis(c)} for c in sorted(missing)]
        # Waits for a transaction that begins the same chain; then its row is there.
        await connection.execute(_FIRST_HEADS[dialect], begun)
        rows = (await connection.execute(_LOCK_HEADS[dialect], {"of_chains": chains})).all()
    return {chain: (int(number), hash_) for chain, number, hash_, _base in rows}, int(rows[0][3])


def entry_hash(seq: int, ms: int, event: str, data: str, previous: str) -> str:
    """The hash of an entry. In a JSON list no part can run into the next.

    The previous hash binds chain and number too: they count from the chain's genesis.
    """
    text = jsontext.dumps([seq, ms, event, data, previous], canonical=True)
    return hashlib.sha256(text.encode()).hexdigest()
