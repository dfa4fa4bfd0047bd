"""Placements, which run agents' cycles in this process or, through a queue, on workers.

Both run the same `run_cycle` with the same journal, and decide only when and where it runs.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Protocol

import structlog

from solward.agents import store
from solward.agents.cycle import NextCycle, RunCycle
from solward.database.database import Database
from solward.runner import LONGEST_WAIT_S, Runner
from solward.support.clock import now_ms

# Most cycles wait for a model, so this limits memory and open connections, not throughput.
CONCURRENCY = 200
# The wait before a cycle that could not be stored runs again.
RETRY_MS = 5_000

_log = structlog.get_logger(__name__)


class Placement(Protocol):
    """Runs the cycles of agents according to their stored rows."""

    async def open(self) -> None:
        """Resume the agents that ran when the last process ended.

        Raises:
            StoreError: the database refused.
        """
        ...

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Schedule a cycle for `due_ms`, which is already stored in the agent's row."""
        ...

    async def halt(self, agent_id: str) -> None:
        """Halt an agent that is stored as halted; return once none of its cycles is running."""
        ...

    async def close(self) -> None:
        """End the cycles of this process; actions that may spend are finished first."""
        ...


MakePlacement = Callable[[Database, RunCycle], Placement]


class EmbeddedPlacement(Runner[NextCycle | None]):
    """Runs cycles in this process, the only one that uses the database.

    Agents wait in a heap by due time. A waiting agent costs nothing: no task, no timer, no query.

    Args:
        run: runs one cycle of an agent and returns the next one.
    """

    def __init__(
        self, database: Database, run: RunCycle, *, concurrency: int = CONCURRENCY
    ) -> None:
        super().__init__("agents", concurrency)
        self._database = database
        self._run = run
        # Due time, agent and number of cycles; only entries that are also in `_waiting` are valid.
        self._heap: list[tuple[int, str, int]] = []
        self._waiting: dict[str, tuple[int, str, int]] = {}
        self._halting: set[asyncio.Task[NextCycle | None]] = set()
        self._closed = False

    async def open(self) -> None:
        """See `Placement`."""
        async with self._database.read() as connection:
            waiting = await store.agents_to_run(connection)
        now = now_ms()
        for agent_id, cycle, due_ms in waiting:
            await self.begin(agent_id, cycle, now if due_ms is None else due_ms)

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """See `Placement`; the cycle replaces the agent's scheduled one.

        It does nothing while a cycle of the agent runs, because that cycle returns the next one.
        """
        if self._closed or agent_id in self._running:
            return
        self._schedule_cycle(agent_id, NextCycle(cycle, due_ms))
        self.start()

    async def halt(self, agent_id: str) -> None:
        """See `Placement`."""
        self._waiting.pop(agent_id, None)
        task = self._running.get(agent_id)
        if task is not None:
            self._halting.add(task)
            task.cancel()
            await asyncio.wait({task})

    async def close(self) -> None:
        """See `Placement`; the agents are halted in parallel."""
        self._closed = True
        self._waiting.clear()
        self._heap.clear()
        await super().close()

    async def start_due_runs(self) -> float:
        """See `Runner`."""
        while self._heap and self._free_runs > 0:
            due_ms, agent_id, cycle = waiting = self._heap[0]
            counts = self._waiting.get(agent_id) == waiting
            if counts and (remaining_ms := due_ms - now_ms()) > 0:
                return min(remaining_ms / 1000, LONGEST_WAIT_S)
            heapq.heappop(self._heap)
            if counts:
                del self._waiting[agent_id]
                self._start_task(agent_id, self._run_one_cycle(agent_id, cycle))
        return LONGEST_WAIT_S

    def _schedule_cycle(self, agent_id: str, upcoming: NextCycle) -> None:
        waiting = (upcoming.due_ms, agent_id, upcoming.cycle)
        self._waiting[agent_id] = waiting
        heapq.heappush(self._heap, waiting)
        if self._heap[0] is waiting:
            self.wake()

    async def _run_one_cycle(self, agent_id: str, cycle: int) -> NextCycle | None:
        try:
            return await self._run(agent_id, cycle)
        except Exception:
            _log.exception("cycle_not_stored", agent_id=agent_id, cycle=cycle)
            return NextCycle(cycle, now_ms() + RETRY_MS)

    def _handle_end(self, key: str, task: asyncio.Task[NextCycle | None]) -> None:
        del self._running[key]
        if self._free_runs == 1:
            self.wake()
        halted = task in self._halting
        self._halting.discard(task)
        if not (task.cancelled() or halted or self._closed):
            upcoming = task.result()
            if upcoming is not None:
                self._schedule_cycle(key, upcoming)


def default_placement(database: Database, run: RunCycle) -> Placement:
    """Place cycles on workers if several processes share the database, else in this process."""
    if not database.shared:
        return EmbeddedPlacement(database, run)
    # Procrastinate is installed for PostgreSQL only.
    from solward.agents.queue import QueuePlacement

    return QueuePlacement(database)
