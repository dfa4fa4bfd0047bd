"""Events of other processes on the same PostgreSQL: told by NOTIFY, heard by LISTEN.

Both only say that the audit log may have grown, and who listens reads it there: what is lost or
comes late on this way delays an event, and loses none. NOTIFY is sent after the commit, on a
connection of its own, because inside a transaction it would make all commits wait for each other
(PostgreSQL's documentation of NOTIFY: it takes a lock on the whole cluster while it commits).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from solward.events import Event, EventBus
from solward.vault.store.database import Database

if TYPE_CHECKING:
    from psycopg import AsyncConnection

CHANNEL = "solward_events"

# However much a process writes, it tells others this often at most.
TELL_S = 0.05
# After news the log is read again, because it is read only up to the oldest transaction that is
# still open; few are for longer than this.
AGAIN_S = (0.1, 0.1, 0.1)
# What was told while a connection was lost, or by a process that was killed before it told, is
# found so late at most.
POLL_S = 2.0

# A connection whose other end went away without a word is given up.
_ANSWER_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def feeding(database: Database, bus: EventBus) -> AsyncIterator[None]:
    """Tell other processes of what this one records, and wake `bus` for what they do.

    Does nothing on SQLite, which one process works on. Does not wait for a database that is away.
    """
    if not database.shared:
        yield
        return
    feed = _Feed(database.connection_arguments(), bus)
    told_before = database.on_recorded

    def tell(events: Sequence[Event]) -> None:
        if told_before is not None:
            told_before(events)
        feed.tell()

    database.on_recorded = tell
    tasks = [asyncio.create_task(work) for work in (feed.send(), feed.listen(), feed.wake())]
    try:
        yield
    finally:
        database.on_recorded = told_before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Feed:
    def __init__(self, arguments: dict[str, Any], bus: EventBus) -> None:
        self._arguments = arguments
        self._bus = bus
        self._recorded = asyncio.Event()
        self._heard = asyncio.Event()

    def tell(self) -> None:
        self._recorded.set()

    async def send(self) -> None:
        await self._connected(self._notify)

    async def listen(self) -> None:
        await self._connected(self._notified)

    async def wake(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._heard.wait()
            self._bus.wake()
            if not self._heard.is_set():
                continue
            self._heard.clear()
            for pause in AGAIN_S:
                await asyncio.sleep(pause)
                self._bus.wake()

    async def _notify(self, connection: AsyncConnection[Any]) -> None:
        while True:
            await self._recorded.wait()
            self._recorded.clear()
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await connection.execute(f"NOTIFY {CHANNEL}")
            except Exception:
                self._recorded.set()
                raise
            await asyncio.sleep(TELL_S)

    async def _notified(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(f"LISTEN {CHANNEL}")
        # For what was told before.
        self._heard.set()
        async for _notification in connection.notifies():
            self._heard.set()

    async def _connected(self, use: Callable[[AsyncConnection[Any]], Awaitable[None]]) -> None:
        from psycopg import AsyncConnection, Error

        pause = _FIRST_PAUSE_S
        while True:
            try:
                connection = await AsyncConnection.connect(**self._arguments, autocommit=True)
                async with connection:
                    pause = _FIRST_PAUSE_S
                    await use(connection)
            except (Error, OSError) as error:
                _log.warning("event_feed_lost", error=type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
