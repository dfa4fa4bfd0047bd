"""The embedded runner: cycles of agents in this process, which is the only one.

Agents wait in a heap by due time and cost nothing while they wait: no task, no timer, no query.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
from collections.abc import Awaitable, Callable

import structlog

from solward.agents.cycle import NextCycle
from solward.runs.runner import LONGEST_WAIT_S, Runner
from solward.support.clock import now_ms

# Most cycles wait for a model: this bounds memory and open connections, not throughput.
CONCURRENCY = 200
# Before a cycle that could not be stored runs again.
RETRY_MS = 5_000

_log = structlog.get_logger(__name__)

RunCycle = Callable[[str, int], Awaitable[NextCycle | None]]


class CycleRunner(Runner[NextCycle | None]):
    """Runs each agent's cycle when it is due.

    Args:
        run: runs one cycle of an agent and returns the next one.
    """

    def __init__(
        self,
        run: RunCycle,
        *,
        concurrency: int = CONCURRENCY,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        super().__init__("agents", concurrency)
        self._run = run
        self._clock = clock
        self._heap: list[tuple[int, int, str]] = []
        self._waiting: dict[str, tuple[int, int]] = {}  # agent -> its heap entry's order, cycle
        self._order = 0
        self._halting: set[asyncio.Task[NextCycle | None]] = set()
        self._closed = False

    def schedule(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Schedule a cycle for `due_ms`, in place of the agent's scheduled one.

        Does nothing while a cycle of the agent runs: that one returns the next.
        """
        if self._closed or agent_id in self._running:
            return
        self._push(agent_id, NextCycle(cycle, due_ms))
        self.start()

    async def halt(self, agent_id: str) -> None:
        """Halt an agent; returns once nothing of it runs."""
        self._waiting.pop(agent_id, None)
        task = self._running.get(agent_id)
        if task is not None:
            self._halting.add(task)
            task.cancel()
            await asyncio.wait({task})

    async def close(self, wait_s: float = 0.0) -> None:
        """Halt every agent, in parallel; actions that spend run to their end first."""
        self._closed = True
        self._waiting.clear()
        self._heap.clear()
        await super().close(wait_s)

    async def turn(self) -> float:
        """See `Runner`."""
        while self._heap and self._room > 0:
            due_ms, order, agent_id = self._heap[0]
            waiting = self._waiting.get(agent_id)
            if waiting is None or waiting[0] != order:
                heapq.heappop(self._heap)
                continue
            remaining_ms = due_ms - self._clock()
            if remaining_ms > 0:
                return min(remaining_ms / 1000, LONGEST_WAIT_S)
            heapq.heappop(self._heap)
            del self._waiting[agent_id]
            then = functools.partial(self._ended, agent_id)
            self._begin(agent_id, self._one(agent_id, waiting[1]), then)
        return LONGEST_WAIT_S

    def _push(self, agent_id: str, upcoming: NextCycle) -> None:
        self._order += 1
        self._waiting[agent_id] = (self._order, upcoming.cycle)
        heapq.heappush(self._heap, (upcoming.due_ms, self._order, agent_id))
        if self._heap[0][1] == self._order:
            self.wake()

    async def _one(self, agent_id: str, cycle: int) -> NextCycle | None:
        try:
            return await self._run(agent_id, cycle)
        except Exception:
            _log.exception("cycle_not_stored", agent_id=agent_id, cycle=cycle)
            return NextCycle(cycle, self._clock() + RETRY_MS)

    def _ended(self, agent_id: str, task: asyncio.Task[NextCycle | None]) -> None:
        if self._room == 1:
            self.wake()
        halted = task in self._halting
        self._halting.discard(task)
        if task.cancelled() or halted or self._closed:
            return
        upcoming = task.result()
        if upcoming is not None:
            self._push(agent_id, upcoming)
