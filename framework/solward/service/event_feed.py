"""Events of other processes on the same PostgreSQL, by NOTIFY and LISTEN.

A notification says only that the audit log may have grown, and listeners read the log: a lost or
late one delays an event and loses none. NOTIFY is sent after the commit, on a connection of its
own, because inside a transaction it would make all commits wait for each other (PostgreSQL's
documentation of NOTIFY: it takes a lock on the whole cluster while it commits).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from solward.database.database import Database
from solward.support.tasks import end
from solward.types.events import Event, EventBus

if TYPE_CHECKING:
    from psycopg import AsyncConnection

CHANNEL = "solward_events"

# Least time between two notifications of a process.
NOTIFY_INTERVAL_S = 0.05
# The log is read only up to the oldest open transaction, so it is read again after a notification;
# few transactions are open for longer than this.
READ_AGAIN_S = (0.1, 0.1, 0.1)
# Longest delay of events whose notification was lost with a connection or a killed process.
POLL_S = 2.0

# A connection that does not answer for so long is dropped.
_ANSWER_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def event_feed(database: Database, bus: EventBus) -> AsyncIterator[None]:
    """Notify other processes of the events this one records, and wake `bus` for theirs.

    Does nothing on SQLite, which has one process. Does not wait for a database that is away.
    """
    if not database.shared:
        yield
        return
    feed = _Feed(database.connection_arguments(), bus)
    publish = database.on_committed

    def on_committed(events: Sequence[Event]) -> None:
        if publish is not None:
            publish(events)
        feed.recorded.set()

    database.on_committed = on_committed
    tasks = [asyncio.create_task(work) for work in (feed.send(), feed.listen(), feed.wake())]
    try:
        yield
    finally:
        database.on_committed = publish
        await end(tasks)


class _Feed:
    def __init__(self, arguments: dict[str, Any], bus: EventBus) -> None:
        self._arguments = arguments
        self._bus = bus
        self.recorded = asyncio.Event()
        self._notified = asyncio.Event()

    async def send(self) -> None:
        await self._connected(self._notify)

    async def listen(self) -> None:
        await self._connected(self._listen)

    async def wake(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._notified.wait()
            self._bus.wake()
            if not self._notified.is_set():
                continue
            self._notified.clear()
            for pause in READ_AGAIN_S:
                await asyncio.sleep(pause)
                self._bus.wake()

    async def _notify(self, connection: AsyncConnection[Any]) -> None:
        while True:
            await self.recorded.wait()
            self.recorded.clear()
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await connection.execute(f"NOTIFY {CHANNEL}")
            except Exception:
                self.recorded.set()
                raise
            await asyncio.sleep(NOTIFY_INTERVAL_S)

    async def _listen(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(f"LISTEN {CHANNEL}")
        # Notifications sent before LISTEN are lost.
        self._notified.set()
        async for _notification in connection.notifies():
            self._notified.set()

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
