"""Runs schedules in this process, beside others on a shared database.

No queue is needed: a due time is taken by one statement on its schedule's row, and the row's fence
and owner say who runs it. A process looks again when its next schedule is due, when one was changed
here, and on a shared database every `POLL_S`, because others change schedules and die.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from solward.runs.runner import LONGEST_WAIT_S, Runner
from solward.schedules.journal import Journal, Outcome, ScheduleHook, SchedulePhase
from solward.schedules.schedule import Schedule
from solward.telemetry import metrics
from solward.types.errors import StoreError, TakenOver

# Runs at one time in a process; the others wait in order of their due times.
CONCURRENCY: Final = 20
POLL_S: Final = 2.0
# After the database refused.
RETRY_S: Final = 2.0
# Runs have so long to end before a stop interrupts them; another process goes on with those.
CLOSE_WAIT_S: Final = 5.0

_log = structlog.get_logger(__name__)


class ScheduleRunner(Runner[None]):
    """Runs each schedule when it is due.

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
        super().__init__("schedules", CONCURRENCY)
        self._journal = journal
        self._run = run
        self._poll_s = POLL_S if is_shared else LONGEST_WAIT_S
        self._hook = hook
        self._makers: dict[str, str] = {}

    async def close(self, wait_s: float = CLOSE_WAIT_S) -> None:
        """See `Runner`."""
        await super().close(wait_s)

    async def turn(self) -> float:
        """See `Runner`."""
        if self._room <= 0:
            return self._poll_s  # the end of a run wakes
        wait_ms = await self._journal.wait_ms(self._makers)
        if wait_ms is None or wait_ms > 0:
            return self._poll_s if wait_ms is None else min(self._poll_s, wait_ms / 1000)
        taken, was_any = await self._journal.take_due(self._makers, self._room)
        for schedule, due_ms in taken:
            self._makers[schedule.id] = schedule.made_by
            self._begin(schedule.id, self._one(schedule, due_ms))
        # Where there was nothing, others have it locked: it is looked at again after a while.
        return 0.0 if was_any else self._poll_s

    async def look(self) -> float:
        """See `Runner`."""
        try:
            return await self.turn()
        except StoreError as error:
            _log.warning("schedules_not_taken", error=str(error))
        except Exception:
            _log.exception("schedules_not_taken")
        return RETRY_S

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._makers[key]
        super()._ended(key, task)

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
