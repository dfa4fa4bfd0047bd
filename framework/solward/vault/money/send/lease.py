"""The identity of a process among those on one database, and its lease."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from solward.database.database import Database
from solward.support.tasks import end
from solward.types.errors import SolwardError
from solward.vault.store import processes as store

# A takeover starts when the lease has run out: the longest a killed process's payments wait. Five
# renewals fit in, so that a slow disk or a stalled loop does not lose a living process its work.
LEASE_S = 10.0
RENEW_S = 2.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """One run of a program; a restarted one is another.

    Attributes:
        kind: `api` or `worker`.
    """

    id: str
    kind: str
    host: str

    @classmethod
    def new(cls, kind: str = "api") -> Process:
        """This process, with an id of its own."""
        return cls(str(uuid.uuid4()), kind, socket.gethostname())


@asynccontextmanager
async def registered(
    database: Database,
    process: Process,
    on_renewed: Callable[[], Awaitable[object]],
    *,
    renew_s: float = RENEW_S,
) -> AsyncIterator[None]:
    """Hold a lease until the block ends, and end it then.

    Args:
        on_renewed: called at each renewal on a shared database: takes over from dead processes.

    Raises:
        StoreError: the lease could not be taken.
    """
    lease_ms = int(LEASE_S * 1000)
    async with database.write() as connection:
        await store.register(connection, process.id, process.kind, process.host, lease_ms)

    async def renew() -> None:
        while True:
            await asyncio.sleep(renew_s)
            try:
                async with database.write() as connection:
                    await store.renew(connection, process.id, process.kind, process.host, lease_ms)
                await on_renewed()
            except SolwardError as error:
                _log.warning("lease_not_renewed", error=str(error))
            except Exception:
                # A failed takeover must not end the renewal of this process's own lease.
                _log.exception("takeover_failed")

    tasks = [asyncio.create_task(renew(), name="solward-lease")] if database.shared else []
    try:
        yield
    finally:
        await end(tasks)
        # If the database is away, the lease runs out by itself.
        with contextlib.suppress(SolwardError):
            async with database.write() as connection:
                await store.remove(connection, process.id)
