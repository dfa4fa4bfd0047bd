"""Runs schedules in this process, beside others on a shared database.

No queue is needed: a due time is taken by one statement on its schedule's row, and the row's fence
and owner say who runs it. A process looks again when its next schedule is due, when one was changed
here, and on a shared database every `POLL_S`, because others change schedules and die.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from solward.schedules.journal import Journal, Outcome, ScheduleHook, SchedulePhase
from solward.schedules.schedule import Schedule
from solward.support.tasks import end
from solward.telemetry import metrics
from solward.types.errors import StoreError, TakenOver

# Runs at one time in a process; the others wait in order of their due times.
CONCURRENCY: Final = 20
POLL_S: Final = 2.0
# The clock may be set while this process waits.
LONGEST_WAIT_S: Final = 30.0
# After the database refused.
RETRY_S: Final = 2.0
# Runs have so long to end before a stop interrupts them; another process goes on with those.
CLOSE_WAIT_S: Final = 5.0

_log = structlog.get_logger(__name__)


class Runner:
    """Starts what is due, never two runs of one schedule at once.

    Args:
        run: runs a schedule for a due time.
        is_shared: whether other processes work on the same database.
        hook: called after each phase of a run (tests kill the process there).
    """

    def __init__(
        self,
        journal: Journal,
        run: Callable[[Schedule, int], Awaitable[Outcome]],
        *,
        is_shared: bool,
        hook: ScheduleHook,
    ) -> None:
        self._journal = journal
        self._run = run
        self._poll_s = POLL_S if is_shared else LONGEST_WAIT_S
        self._hook = hook
        self._running: dict[str, asyncio.Task[None]] = {}
        self._makers: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for what is due."""
        # An empty context: whoever starts it must not appear in the logs of all later runs.
        self._loop = asyncio.create_task(
            self._work(), name="schedules", context=contextvars.Context()
        )

    def wake(self) -> None:
        """Look at once: a schedule was changed here."""
        self._wake.set()

    async def close(self) -> None:
        """Begin nothing any more; runs have `CLOSE_WAIT_S` to end, and are interrupted then."""
        if self._loop is not None:
            await end([self._loop])
        tasks = set(self._running.values())
        if not tasks:
            return
        _done, left = await asyncio.wait(tasks, timeout=CLOSE_WAIT_S)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def turn(self) -> float:
        """Start what is due; returns the seconds until the next look."""
        room = CONCURRENCY - len(self._running)
        if room <= 0:
            return self._poll_s  # the end of a run wakes
        wait_ms = await self._journal.wait_ms(self._makers)
        if wait_ms is None or wait_ms > 0:
            return self._poll_s if wait_ms is None else min(self._poll_s, wait_ms / 1000)
        taken, was_any = await self._journal.take_due(self._makers, room)
        for schedule, due_ms in taken:
            self._start(schedule, due_ms)
        # Where there was nothing, others have it locked: it is looked at again after a while.
        return 0.0 if was_any else self._poll_s

    async def settled(self) -> None:
        """Wait until no run is going on here."""
        while self._running:
            await asyncio.wait(set(self._running.values()))

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            try:
                wait_s = await self.turn()
            except StoreError as error:
                _log.warning("schedules_not_taken", error=str(error))
                wait_s = RETRY_S
            except Exception:
                _log.exception("schedules_not_taken")
                wait_s = RETRY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    def _start(self, schedule: Schedule, due_ms: int) -> None:
        task = asyncio.create_task(self._one(schedule, due_ms), name=f"schedule {schedule.id}")
        self._running[schedule.id] = task
        self._makers[schedule.id] = schedule.made_by
        task.add_done_callback(self._ended(schedule.id))

    def _ended(self, schedule_id: str) -> Callable[[asyncio.Task[None]], None]:
        def ended(_task: asyncio.Task[None]) -> None:
            del self._running[schedule_id], self._makers[schedule_id]
            self._wake.set()

        return ended

    async def _one(self, schedule: Schedule, due_ms: int) -> None:
        self._hook(schedule.id, SchedulePhase.ENTERED)
        try:
            outcome = await self._run(schedule, due_ms)
            self._hook(schedule.id, SchedulePhase.RAN)
            await self._journal.leave(schedule, due_ms, outcome)
        except TakenOver:
            # Another process goes on with it, or it was deleted.
            metrics.FENCED.labels("leave").inc()
            _log.info("schedule_fenced", schedule_id=schedule.id)
            return
        except StoreError as error:
            # It is this process's still, and run again: its money calls are known by their names.
            _log.warning("schedule_not_stored", schedule_id=schedule.id, error=str(error))
            await asyncio.sleep(RETRY_S)
            return
        metrics.SCHEDULE_RUNS.labels(outcome.status.value).inc()
        self._hook(schedule.id, SchedulePhase.LEFT)
