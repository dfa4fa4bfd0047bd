"""What a write transaction tells: appended to the audit log with it, published once it committed.

A transactional outbox: an event is durable exactly if what it tells of is, and nobody hears of
what was rolled back. `Database.write` gathers and appends; whoever changes rows records.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit import chains
from solward.clock import now_ms
from solward.events import Event

_KEY = "solward_events"


def gather(connection: AsyncConnection) -> None:
    """Let events be recorded in the transaction of this connection."""
    assert connection.sync_connection is not None
    connection.sync_connection.execution_options(**{_KEY: []})


def record(connection: AsyncConnection, event: str, data: Any, trace: str | None = None) -> None:
    """Tell of something this write transaction makes true.

    Args:
        event: one of `solward.events.EventKind`.
        data: JSON-able, without secrets; must not be changed afterwards.
        trace: what asked for it, for the log of this process alone.

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
    told = [(chain_of(event, data), event, data) for event, data, _trace in recorded]
    seqs = await chains.append_many(connection, ms, told)
    return [Event(seq, ms, *each) for seq, each in zip(seqs, recorded, strict=True)]


def chain_of(event: str, data: Any) -> str:
    """Which chain of the audit log an event belongs to: its wallet's, its agent's or the common."""
    kind = event.partition(":")[0]
    if kind == "transaction":
        return f"wallet:{data['walletId']}"
    if kind == "agent":
        return f"agent:{data['agentId']}"
    return chains.SERVICE_CHAIN


def _recorded(connection: AsyncConnection) -> list[tuple[str, Any, str | None]] | None:
    assert connection.sync_connection is not None
    found: list[tuple[str, Any, str | None]] | None = (
        connection.sync_connection.get_execution_options().get(_KEY)
    )
    return found
