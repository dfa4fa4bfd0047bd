"""The embedded runner: one scheduler for all agents of this process.

Agents wait in a heap by due time and cost nothing while they wait: no task, no timer, no query.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import heapq
from collections.abc import Awaitable, Callable

import structlog

from solward.agents.cycle import NextCycle
from solward.support.clock import now_ms
from solward.support.tasks import end

# Most cycles wait for a model: this bounds memory and open connections, not throughput.
CONCURRENCY = 200
# Before a cycle that could not be stored runs again.
RETRY_MS = 5_000
# The wall clock may be set while the runner sleeps.
_LONGEST_SLEEP_S = 30.0

_log = structlog.get_logger(__name__)

RunCycle = Callable[[str, int], Awaitable[NextCycle | None]]


class Runner:
    """Starts each agent's cycle when it is due, never two of one agent at once.

    Args:
        run: runs one cycle of an agent and returns the next one.
        concurrency: most cycles at one time; the others wait in order of due time.
    """

    def __init__(
        self,
        run: RunCycle,
        *,
        concurrency: int = CONCURRENCY,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._run = run
        self._concurrency = concurrency
        self._clock = clock
        self._heap: list[tuple[int, int, str]] = []
        self._waiting: dict[str, tuple[int, int]] = {}  # agent -> its heap entry's order, cycle
        self._order = 0
        self._tasks: dict[str, asyncio.Task[NextCycle | None]] = {}
        self._halting: set[asyncio.Task[NextCycle | None]] = set()
        self._wake = asyncio.Event()
        self._scheduler: asyncio.Task[None] | None = None
        self._closed = False

    def schedule(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Schedule a cycle for `due_ms`, in place of the agent's scheduled one.

        Does nothing while a cycle of the agent runs: that one returns the next.
        """
        if self._closed or agent_id in self._tasks:
            return
        self._push(agent_id, NextCycle(cycle, due_ms))
        if self._scheduler is None:
            # An empty context: the id and span of the request that starts the first agent must not
            # appear in the logs and traces of all later cycles.
            self._scheduler = asyncio.create_task(
                self._schedule(), name="agents", context=contextvars.Context()
            )

    async def halt(self, agent_id: str) -> None:
        """Halt an agent; returns once nothing of it runs."""
        self._waiting.pop(agent_id, None)
        task = self._tasks.get(agent_id)
        if task is not None:
            self._halting.add(task)
            task.cancel()
            await asyncio.wait({task})

    async def close(self) -> None:
        """Halt every agent, in parallel; actions that spend run to their end first."""
        self._closed = True
        self._waiting.clear()
        self._heap.clear()
        if self._scheduler is not None:
            await end([self._scheduler])
        tasks = set(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _push(self, agent_id: str, upcoming: NextCycle) -> None:
        self._order += 1
        self._waiting[agent_id] = (self._order, upcoming.cycle)
        heapq.heappush(self._heap, (upcoming.due_ms, self._order, agent_id))
        if self._heap[0][1] == self._order:
            self._wake.set()

    async def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            sleep_s = self._launch_due()
            timer = loop.call_later(sleep_s, self._wake.set)
            await self._wake.wait()
            timer.cancel()

    def _launch_due(self) -> float:
        """Start due cycles up to the concurrency; returns the seconds to sleep."""
        while self._heap and len(self._tasks) < self._concurrency:
            due_ms, order, agent_id = self._heap[0]
            waiting = self._waiting.get(agent_id)
            if waiting is None or waiting[0] != order:
                heapq.heappop(self._heap)
                continue
            remaining_ms = due_ms - self._clock()
            if remaining_ms > 0:
                return min(remaining_ms / 1000, _LONGEST_SLEEP_S)
            heapq.heappop(self._heap)
            del self._waiting[agent_id]
            self._start(agent_id, waiting[1])
        return _LONGEST_SLEEP_S

    def _start(self, agent_id: str, cycle: int) -> None:
        task = asyncio.create_task(self._one(agent_id, cycle))
        self._tasks[agent_id] = task
        task.add_done_callback(functools.partial(self._ended, agent_id))

    async def _one(self, agent_id: str, cycle: int) -> NextCycle | None:
        try:
            return await self._run(agent_id, cycle)
        except Exception:
            _log.exception("cycle_not_stored", agent_id=agent_id, cycle=cycle)
            return NextCycle(cycle, self._clock() + RETRY_MS)

    def _ended(self, agent_id: str, task: asyncio.Task[NextCycle | None]) -> None:
        if len(self._tasks) >= self._concurrency:
            self._wake.set()
        del self._tasks[agent_id]
        halted = task in self._halting
        self._halting.discard(task)
        if task.cancelled() or halted or self._closed:
            return
        upcoming = task.result()
        if upcoming is not None:
            self._push(agent_id, upcoming)
