"""Cycles on workers: a due cycle is a job in procrastinate's queue, beside the agents' own rows.

Any process defers and halts; only workers (`solward.agents.worker`) run. A job is only a hint:
the fence decides whether its cycle is entered, may spend and is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from solward.agents.store import agents as agent_store
from solward.agents.store import jobs as store
from solward.database.database import Database
from solward.support.clock import now_ms

# While a halt waits: how often the cycle's end and its worker's heartbeat are read.
POLL_S = 0.05
HEARTBEAT_CHECK_S = 0.5

_log = structlog.get_logger(__name__)


class QueuePlacement:
    """Runs cycles on workers; see `Placement`.

    Args:
        clock: for what is due, in Unix milliseconds.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = now_ms) -> None:
        self._database = database
        self._clock = clock

    async def open(self) -> None:
        """Create the queue's tables; workers find due cycles by themselves."""
        async with self._database.write() as connection:
            await store.prepare(connection)

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Create the job at once where the cycle is due; workers would within a second."""
        async with self._database.write() as connection:
            await store.defer_one(connection, agent_id, self._clock())

    async def halt(self, agent_id: str) -> None:
        """See `Placement`. A run whose worker is dead or frozen loses its fence instead: it can
        neither spend nor be recorded any more."""
        async with self._database.write() as connection:
            await store.cancel(connection, agent_id)
        checked = 0.0
        while True:
            async with self._database.read() as connection:
                running = await agent_store.entered(connection, agent_id)
            if running is None:
                return
            if time.monotonic() - checked >= HEARTBEAT_CHECK_S:
                checked = time.monotonic()
                await self._revoke_if_dead(agent_id, running[0])
            else:
                await asyncio.sleep(POLL_S)

    async def close(self) -> None:
        """Nothing runs here."""

    async def _revoke_if_dead(self, agent_id: str, fence: int) -> None:
        async with self._database.write() as connection:
            if await store.has_live_worker(connection, agent_id):
                # The job may have started after the first cancellation.
                await store.cancel(connection, agent_id)
                return
            if await agent_store.revoke_fence(connection, agent_id, fence):
                await store.drop_stalled(connection, agent_id)
                _log.warning("cycle_cut_off", agent_id=agent_id)
