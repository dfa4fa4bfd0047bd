"""A placement on workers with the worker in the same process, for tests that open one service."""

from __future__ import annotations

import asyncio
import contextvars

from solward.agents.queue_placement import QueuePlacement
from solward.agents.runner import RunCycle
from solward.agents.store import agents as store
from solward.agents.worker import Worker
from solward.database.database import Database


class Beside:
    """Cycles go through the real queue; a worker of this process runs them once there are any."""

    def __init__(self, database: Database, run: RunCycle) -> None:
        self._database, self._run = database, run
        self._queue = QueuePlacement(database)
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See `Placement`."""
        await self._queue.open()
        async with self._database.read() as connection:
            if await store.agents_to_run(connection):
                self._work()

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """See `Placement`."""
        self._work()
        await self._queue.begin(agent_id, cycle, due_ms)

    async def halt(self, agent_id: str) -> None:
        """See `Placement`."""
        await self._queue.halt(agent_id)

    async def close(self) -> None:
        """End the worker too; the cycles it is in are cut off soon."""
        if self._worker is not None and self._working is not None:
            self._worker.stop()
            await self._working
        await self._queue.close()

    def _work(self) -> None:
        if self._worker is None:
            self._worker = Worker(self._database, self._run, concurrency=50, grace_s=0.1)
            # As in a process of its own, it has nothing to do with whoever starts an agent.
            self._working = asyncio.create_task(self._worker.run(), context=contextvars.Context())
