"""Writes to the audit log: events are stored with the changes they describe, and published after
the commit.

This is a transactional outbox: an event is durable exactly if its change is, and events of a
transaction that was rolled back are never visible. `Database.write` calls `begin` and `append`;
code that changes rows calls `record`.

Every wallet and every agent has its own chain of entries, and the chain "" has all other entries,
so concurrent writers do not wait for each other. Each row has the hash of its predecessor: an
edited, removed, inserted or moved row breaks its chain. A truncated chain differs from its end in
`audit_heads`. An attacker who can write to the database can change these ends too, so each end has
an HMAC-SHA-256 under the audit key. The database has this key only sealed under the keystore's
secret (`solward.vault.custody.keyring`). Each append checks the end of the chain that it continues:
an end that is not authentic never becomes so by later entries. Restoring an older copy of the
whole database removes history undetected: copy the heads elsewhere.

`seq` orders all rows, so that a new row never appears before a row that was already read. On
SQLite, which has one writer, `seq` is a counter. On PostgreSQL it is made of the transaction's id,
and readers stop before the oldest open transaction. Concurrent transactions' rows may there be in
another order by `seq` than in the chain they share.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from contextvars import Context, copy_context
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
import structlog
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    bindparam,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import ForEachRow, Prepared
from solward.database.records import insert_new
from solward.database.tables import audit, audit_heads, audit_offset
from solward.support import jsontext
from solward.support.clock import now_ms
from solward.telemetry import metrics
from solward.types.errors import StoreError
from solward.types.events import Event, EventKind

AUDIT_KEY_BYTES = 32

# The MAC of a chain that continues after an end that was not authentic; no real MAC equals it.
BROKEN = "broken"

_DOMAIN = "solward-audit-head/1"


class Head(NamedTuple):
    """The end of a chain, and the entry after which it begins if retention deleted older entries.

    Attributes:
        number: the number of its last entry; 0 when it has none.
        pruned_hash: the hash of entry `pruned_number`, None while nothing was cut.
        service_number: the last entry of the chain without a name when this one was last written,
            so that the former cannot be taken back further than all others; `service_hash` its
            hash, None while it had none.
        mac: the MAC of all this and the chain's name, hex; None if it was written without a key.
    """

    number: int
    hash: str
    pruned_number: int = 0
    pruned_hash: str | None = None
    service_number: int = 0
    service_hash: str | None = None
    mac: str | None = None

    def signed(self, key: bytes | None, chain: str) -> Head:
        """Return this head with its MAC, or without a MAC if there is no key."""
        return self._replace(mac=None if key is None else self._head_mac(key, chain))

    def is_authentic(self, key: bytes, chain: str) -> bool:
        """Return whether a holder of the key wrote this head for this chain."""
        return self.mac is not None and hmac.compare_digest(self.mac, self._head_mac(key, chain))

    def followed_by(self, following: Head, key: bytes | None, chain: str) -> Head:
        """Return the following head with a MAC; without one if this head is not authentic."""
        if key is None or self.is_authentic(key, chain):
            return following.signed(key, chain)
        return following._replace(mac=BROKEN)

    def _head_mac(self, key: bytes, chain: str) -> str:
        fields = (_DOMAIN, chain, *self[:-1])
        return hmac.digest(key, msgspec.json.encode(fields), "sha256").hex()


# The chain of all entries that belong to no wallet or agent.
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
# On PostgreSQL, no new row can appear below this `seq`.
OPEN_FROM = _OFFSET + _OLDEST_OPEN.op("<<")(_EVENT_BITS)

# The first `seq` of a transaction, less one.
_BASE: dict[str, ColumnElement[int]] = {
    "sqlite": select(func.coalesce(func.max(audit.c.seq), 0)).scalar_subquery(),
    "postgresql": _OFFSET + _XID.op("<<")(_EVENT_BITS) - 1,
}


_service = audit_heads.alias("service")


def _lock_heads_statement(dialect: str) -> Select[tuple[Any, ...]]:
    heads = audit_heads.c
    service = [
        select(column).where(_service.c.chain == SERVICE_CHAIN).scalar_subquery()
        for column in (_service.c.number, _service.c.hash)
    ]
    return (
        select(_BASE[dialect].label("base"), *service, *heads)
        .where(heads.chain.in_(bindparam("of_chains", expanding=True)))
        # Sorted, so that two transactions with the same chains cannot deadlock.
        .order_by(heads.chain)
        .with_for_update(of=audit_heads)
    )


_LOCK_HEADS = {name: Prepared(_lock_heads_statement(name)) for name in _BASE}
_FIRST_HEADS = Prepared(insert_new(audit_heads))
_APPEND = ForEachRow.insert(audit)
_MOVED = ("number", "hash", "service_number", "service_hash", "mac")
_MOVE_HEAD = ForEachRow(
    {"of_chain": Text(), **{f"to_{name}": audit_heads.c[name].type for name in _MOVED}},
    lambda row: (
        update(audit_heads)
        .where(audit_heads.c.chain == row["of_chain"])
        .values({name: row[f"to_{name}"] for name in _MOVED})
    ),
)

Recorded: TypeAlias = tuple[str, Any, str | None, Context]
"""Event, data and trace of a recorded change, and the principal's context for its log line."""

_recorded: WeakKeyDictionary[Connection | None, list[Recorded]] = WeakKeyDictionary()

_log = structlog.get_logger(__name__)

_LINES: dict[str, str] = {
    EventKind.TRANSACTION_PENDING: "transaction_reserved",
    EventKind.TRANSACTION_CONFIRMED: "transaction_settled",
    EventKind.TRANSACTION_FAILED: "transaction_settled",
    EventKind.TRANSACTION_BLOCKED: "transaction_blocked",
}


def begin(connection: AsyncConnection) -> None:
    """Allow calls of `record` on this connection until `take` is called."""
    _recorded[connection.sync_connection] = []


def take(connection: AsyncConnection) -> list[Recorded]:
    """Return the events recorded since `begin`, in order, and end the recording."""
    return _recorded.pop(connection.sync_connection, [])


def record(connection: AsyncConnection, event: str, data: Any, trace: str | None = None) -> None:
    """Record an event of this write transaction.

    Args:
        event: one of `solward.types.events.EventKind`.
        data: JSON-able, without secrets; must not be changed afterwards.
        trace: the request or the agent's cycle that caused it, only for this process's log.

    Raises:
        RuntimeError: the connection is not inside `Database.write`.
    """
    recorded = _recorded.get(connection.sync_connection)
    if recorded is None:
        raise RuntimeError(f"{event} was recorded outside a write transaction")
    recorded.append((event, data, trace, copy_context()))


def recorded_events(connection: AsyncConnection) -> list[tuple[str, Any]]:
    """Return the kind and data of each event that this write transaction recorded so far."""
    return [(event, data) for event, data, *_ in _recorded.get(connection.sync_connection, ())]


async def append(
    connection: AsyncConnection, recorded: Sequence[Recorded], key: bytes | None
) -> list[Event]:
    """Append the recorded events to the audit log, as the transaction's last statements.

    They come last because on PostgreSQL appenders to one chain wait for each other from here to
    their commit.

    Args:
        key: the audit key, None before the keystore is open.
    """
    if not recorded:
        return []
    ms = now_ms()
    rows = [(chain_of(event, data), event, data) for event, data, *_ in recorded]
    seqs = await append_many(connection, ms, rows, key)
    return [Event(seq, ms, *each[:3]) for seq, each in zip(seqs, recorded, strict=True)]


def publish(events: Sequence[Event], recorded: Sequence[Recorded]) -> None:
    """Count and log committed events.

    A transaction is logged and counted from its event, so that only the process that stored its end
    reports it. A log line has the fields that were bound where the event was recorded, because
    another caller may commit it (`solward.database.sqlite`).
    """
    for event, (*_, context) in zip(events, recorded, strict=True):
        context.run(_publish, event)


def _publish(event: Event) -> None:
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
    """Return the chain an event belongs to: its wallet's, its agent's or the service's."""
    kind = event.partition(":")[0]
    if kind in ("transaction", "hold", "payment", "schedule"):
        return f"wallet:{data['walletId']}"
    if kind == "agent":
        return f"agent:{data['agentId']}"
    return SERVICE_CHAIN


def genesis(chain: str) -> str:
    """Return the previous hash of a chain's first entry, which is unique to the chain."""
    if chain == SERVICE_CHAIN:
        return GENESIS_HASH
    return hashlib.sha256(f"solward-audit/{chain}".encode()).hexdigest()


async def append_many(
    connection: AsyncConnection,
    ms: int,
    events: Sequence[tuple[str, str, Any]],
    key: bytes | None = None,
) -> list[int]:
    """Add a row for each `(chain, event, data)` inside the caller's write transaction.

    Appenders to the same chain wait for each other from here to their commit on PostgreSQL:
    append last.

    Args:
        key: the audit key, which authenticates the chains' new ends.

    Returns:
        Their `seq`, in the order given.

    Raises:
        StoreError: more than 65,536 events on PostgreSQL.
        RuntimeError: the chains are authenticated, and there is no key.
    """
    if not events:
        return []
    dialect = connection.dialect.name
    chains = sorted({chain for chain, _event, _data in events})
    base, service_number, service_hash, heads = await _lock_heads(connection, chains, key)
    if dialect != "sqlite" and len(events) > 1 << _EVENT_BITS:
        raise StoreError("One transaction cannot tell more than 65536 events")
    ends = {chain: (head.number, head.hash) for chain, head in heads.items()}
    rows: list[dict[str, Any]] = []
    for seq, (chain, event, data) in enumerate(events, base + 1):
        number, previous = ends[chain]
        text = jsontext.dumps_own(data, canonical=True)
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
    await _APPEND.run(connection, rows)
    moved = []
    for chain, (number, digest) in ends.items():
        head = heads[chain]
        following = head._replace(number=number, hash=digest)
        if service_number >= head.service_number:
            following = following._replace(service_number=service_number, service_hash=service_hash)
        moved.append((chain, head, head.followed_by(following, key, chain)))
    await _MOVE_HEAD.run(
        connection,
        [
            {"of_chain": chain, **{f"to_{name}": getattr(head, name) for name in _MOVED}}
            for chain, _was, head in moved
        ],
    )
    for chain, was, head in moved:
        if head.mac == BROKEN != was.mac:
            report_broken(chain, was)
    return [row["seq"] for row in rows]


def report_broken(chain: str, head: Head) -> None:
    """Report an end that is not authentic in the process's log and metrics, because the audit log
    itself was tampered with."""
    metrics.ALERTS.labels("audit_broken").inc()
    _log.error("audit_broken", chain=chain, number=head.number)


async def _lock_heads(
    connection: AsyncConnection, chains: list[str], key: bytes | None
) -> tuple[int, int, str | None, dict[str, Head]]:
    """Lock the heads of the chains to append to, and create the heads of new chains.

    Returns:
        The `seq` before this transaction's first, number and hash of the last entry of the chain
        without a name, and the ends.
    """
    dialect = connection.dialect.name
    rows = await _LOCK_HEADS[dialect].all(connection, {"of_chains": chains})
    if len(rows) < len(chains):
        missing = set(chains) - {row.chain for row in rows}
        begun = [
            {"chain": chain, **Head(0, genesis(chain)).signed(key, chain)._asdict()}
            for chain in sorted(missing)
        ]
        # This waits for a transaction that begins the same chain; after it the row exists.
        await _FIRST_HEADS.many(connection, begun)
        rows = await _LOCK_HEADS[dialect].all(connection, {"of_chains": chains})
    heads = {chain: Head(*fields) for _base, _number, _hash, chain, *fields in rows}
    if key is None and any(head.mac is not None for head in heads.values()):
        raise RuntimeError("The audit log is authenticated; open the keystore before writing")
    base, service_number, service_hash, *_ = rows[0]
    return int(base), int(service_number or 0), service_hash, heads


def entry_hash(seq: int, ms: int, event: str, data: str, previous: str) -> str:
    """Return an entry's hash, which is computed from a JSON list of its fields.

    The previous hash also binds chain and number, because it begins at the chain's genesis.
    """
    text = msgspec.json.encode((seq, ms, event, data, previous))
    return hashlib.sha256(text).hexdigest()
