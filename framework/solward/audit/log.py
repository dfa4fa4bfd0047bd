"""The audit log of a process: appended to, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit import chains as store
from solward.audit import outbox
from solward.audit import verification as check
from solward.audit.chains import AuditEntry
from solward.audit.verification import Head, Log
from solward.errors import AuditBroken


class Database(Protocol):
    """The database the log is in: read and write transactions."""

    def read(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that changes nothing."""

    def write(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that is committed with the events recorded in it."""


class AuditLog:
    """The hash-chained log (`solward.audit.chains`).

    What changes the database records its event in the same transaction (`solward.audit.outbox`);
    `append` is for what happens outside of it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, event: str, data: Any) -> None:
        """Record an event in a transaction of its own.

        Raises:
            StoreError: the database refused; nobody was told.
        """
        async with self._database.write() as connection:
            outbox.record(connection, event, data)

    async def latest(self, limit: int = 50, before: int | None = None) -> list[AuditEntry]:
        """Up to `limit` entries, newest first, of those numbered below `before`."""
        async with self._database.read() as connection:
            return await store.latest(connection, limit, before)

    async def after(self, seq: int, limit: int) -> list[AuditEntry]:
        """Up to `limit` entries, oldest first, of those numbered above `seq`."""
        async with self._database.read() as connection:
            return await store.after(connection, seq, limit)

    async def end(self) -> int:
        """The newest entry's `seq`, 0 when there is none."""
        async with self._database.read() as connection:
            return await store.end(connection)

    async def verify(
        self, earlier: str | None = None, heads: Mapping[str, Head] | None = None
    ) -> Log:
        """Check every chain, and that they continue those seen earlier.

        Args:
            earlier: the hash of an entry that must still be there.
            heads: where chains ended earlier.

        Raises:
            AuditBroken: naming the first entry that was changed, is missing or does not belong.
        """
        async with self._database.read() as connection:
            log = await check.verify(connection)
            named = earlier is not None and earlier != store.GENESIS_HASH
            if named and await check.find(connection, str(earlier)) is None:
                raise AuditBroken(
                    f"The audit log has no entry with the hash {earlier}: it was cut or "
                    "rewritten, or the entry is older than EVENT_RETENTION_DAYS"
                )
            for chain, head in (heads or {}).items():
                if not await check.continues(connection, log, chain, head):
                    raise AuditBroken(
                        f"The audit log does not continue chain {chain!r} as it was at entry "
                        f"{head.number}: it was cut or rewritten"
                    )
            return log
