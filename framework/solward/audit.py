"""The audit log of a process: what is appended is durable first, then told to listeners."""

from __future__ import annotations

from typing import Any

from solward.clock import now_ms
from solward.events import EventBus
from solward.store import audit as store
from solward.store.audit import AuditEntry
from solward.store.database import Database


class AuditLog:
    """Appends to, reads and checks the hash-chained log (`solward.store.audit`)."""

    def __init__(self, database: Database, events: EventBus) -> None:
        self._database = database
        self._events = events

    async def append(self, event: str, data: Any) -> int:
        """Record an event in a transaction of its own, then publish it; returns its number.

        Raises:
            StoreError: the database refused; nothing was published.
        """
        async with self._database.write() as connection:
            seq = await store.append(connection, now_ms(), event, data)
        self._events.publish(event, data)
        return seq

    async def latest(self, limit: int = 50, before: int | None = None) -> list[AuditEntry]:
        """Up to `limit` entries, newest first, of those numbered below `before`."""
        async with self._database.read() as connection:
            return await store.latest(connection, limit, before)

    async def verify(self) -> int:
        """Check the whole chain; returns its length.

        Raises:
            StoreError: naming the first entry that was changed, is missing or does not belong.
        """
        async with self._database.read() as connection:
            return await store.verify(connection)
