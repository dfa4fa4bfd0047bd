"""Runs of schedules in this process; other processes on a shared database run schedules too.

One database transaction starts a run, and another ends it. No queue is needed: one statement on the
schedule's row claims a due time, and the row's fence and owner say which process runs it. A process
looks for due times when its next schedule is due, when it changed a schedule, and on a shared
database every `POLL_S`, because other processes change schedules and die.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.database import Database
from solward.operations.key_callers import KeyCallers
from solward.plugins import Registry
from solward.plugins.loaded import LoadedSkill
from solward.resources.schedules import Missed, RunStatus, ScheduleStatus
from solward.runner import LONGEST_WAIT_S, Runner, RunSkill
from solward.schedules import store
from solward.schedules.schedule import Schedule
from solward.schedules.store import action_prefix
from solward.support.clean_text import cleaned
from solward.support.clock import iso
from solward.support.durations import HOUR_MS, MINUTE_MS
from solward.telemetry import metrics
from solward.telemetry.scrub import concealed, scrub_text
from solward.types.errors import (
    Held,
    KeyRevoked,
    SkillError,
    SkillTimeout,
    SolwardError,
    StoreError,
    TakenOver,
)
from solward.types.events import EventKind
from solward.types.roles import is_key
from solward.types.skill import Effects
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import Actor, ScheduleRun
from solward.vault.store import spending

# The maximum of simultaneous runs in a process; other runs wait in order of their due times.
CONCURRENCY: Final = 20
POLL_S: Final = 2.0
# The wait after the database refused a statement.
RETRY_S: Final = 2.0
# The seconds after a stop in which runs may end; then another process resumes them.
CLOSE_WAIT_S: Final = 5.0

LATE_MS: Final = MINUTE_MS
"""A due time counts as missed if it is found later than this number of milliseconds."""
RESUMED_WITHIN_MS: Final = HOUR_MS
"""The maximum age of an interrupted run to resume, if the schedule skips missed due times."""
MOST_ATTEMPTS: Final = 3
"""The maximum attempts at a run. A run that is interrupted each time may crash the process."""
PAUSE_AFTER: Final = 5
"""The number of consecutive refused or failed runs after which a schedule pauses itself."""
MOST_TAKEN: Final = 50
UNREADABLE_FOR_S: Final = 300.0
"""Seconds after which an unreadable schedule is read again."""
MAX_TOLD: Final = 500
"""The maximum characters of a run's text in its event. The audit log is permanent, and an API key's
schedules may write to it every minute."""
MOST_OF_KEY: Final = 5
"""The maximum number of a key's simultaneous runs in a process, so that others can run too."""

NO_DUE_TIME: Final = "The schedule has no due time left"
RUNS_DONE: Final = "The schedule has run maxRuns times"

Now = Callable[[AsyncConnection], Awaitable[int]]

MAX_TEXT: Final = 4_000
KEY_ENDED: Final = "The secret of the API key that made the schedule has ended"
_BROKEN: Final = frozenset({"internal_error", "bad_outcome"})

_log = structlog.get_logger(__name__)


class SchedulePhase(StrEnum):
    """The points of a run at which tests stop or kill the process."""

    ENTERED = "due_time_taken"
    """The claim of the due time is stored."""
    RAN = "skill_ended"
    """The skill ended: its transactions are stored, but not its outcome."""
    LEFT = "run_stored"
    """The outcome and the next due time are stored."""


ScheduleHook = Callable[[str, SchedulePhase], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        pauses: the reason to pause the schedule at once, if there is one.
    """

    status: RunStatus
    text: str
    pauses: str | None = None


class ScheduleRunner(Runner[None]):
    """Runs each schedule when it is due.

    Args:
        me: this process's id.
        now: the clock for due times, in Unix milliseconds.
        registry: returns the plugins that are in use now.
        run: runs a schedule for one due time.
        hook: called after each phase of a run (tests kill the process there).
    """

    def __init__(
        self,
        database: Database,
        me: str,
        now: Now,
        registry: Callable[[], Registry],
        run: Callable[[Schedule, int], Awaitable[Outcome]],
        hook: ScheduleHook,
    ) -> None:
        super().__init__("schedules", CONCURRENCY, CLOSE_WAIT_S)
        self._database = database
        self._me = me
        self._now = now
        self._registry = registry
        self._run = run
        self._poll_s = POLL_S if database.shared else LONGEST_WAIT_S
        self._hook = hook
        # Schedule that is running in this process -> its maker.
        self._makers: dict[str, str] = {}
        # Unreadable schedule -> the time to read it again, in monotonic seconds.
        self._unreadable: dict[str, float] = {}

    async def start_due_runs(self) -> float:
        """See `Runner`."""
        if self._free_runs <= 0:
            return self._poll_s  # the end of a run wakes the runner before
        wait_ms = await self.wait_ms()
        if wait_ms is None or wait_ms > 0:
            return self._poll_s if wait_ms is None else min(self._poll_s, wait_ms / 1000)
        taken, was_any = await self.take_due(self._free_runs)
        for schedule, due_ms in taken:
            self._makers[schedule.id] = schedule.made_by
            self._start_task(schedule.id, self._run_schedule(schedule, due_ms))
        # If no due schedule was found, another process has locked its row, so this process waits.
        return 0.0 if was_any else self._poll_s

    async def try_start_due_runs(self) -> float:
        """See `Runner`."""
        try:
            return await self.start_due_runs()
        except StoreError as error:
            _log.warning("schedules_not_taken", error=str(error))
        except Exception:
            _log.exception("schedules_not_taken")
        return RETRY_S

    def _handle_end(self, key: str, task: asyncio.Task[None]) -> None:
        del self._makers[key]
        super()._handle_end(key, task)

    async def _run_schedule(self, schedule: Schedule, due_ms: int) -> None:
        self._hook(schedule.id, SchedulePhase.ENTERED)
        try:
            outcome = await self._run(schedule, due_ms)
            self._hook(schedule.id, SchedulePhase.RAN)
            await self.leave(schedule, due_ms, outcome)
        except TakenOver:
            # Another process resumed the run, or the schedule was deleted.
            metrics.FENCED.labels("leave").inc()
            _log.info("schedule_fenced", schedule_id=schedule.id)
            return
        except StoreError as error:
            # The run still belongs to this process and is run again. Its money calls are not paid
            # twice, because they have the same action keys.
            _log.warning("schedule_not_stored", schedule_id=schedule.id, error=str(error))
            await asyncio.sleep(RETRY_S)
            return
        metrics.SCHEDULE_RUNS.labels(outcome.status.value).inc()
        self._hook(schedule.id, SchedulePhase.LEFT)

    async def wait_ms(self) -> int | None:
        """Return the milliseconds until this process has a run to start; None if no run waits."""
        async with self._database.read() as connection:
            due_ms = await store.next_due(
                connection, self._me, self._ignored_ids(), _busy_keys(self._makers.values())
            )
            if due_ms is None:
                return None
            return max(0, due_ms - await self._now(connection))

    async def take_due(self, room: int) -> tuple[list[tuple[Schedule, int]], bool]:
        """Claim due schedules. Return the schedules to run with due times, and whether any was due.

        A due time that was missed, or comes during a freeze, is stored as skipped instead.
        """
        taken: list[tuple[Schedule, int]] = []
        makers = list(self._makers.values())
        async with self._database.write() as connection:
            now = await self._now(connection)
            most = min(room, MOST_TAKEN)
            found = await store.take_due(
                connection, self._me, now, self._ignored_ids(), _busy_keys(makers), most
            )
            for schedule in found:
                if schedule.made_by in _busy_keys(makers):
                    continue
                if schedule.is_unreadable:
                    self._ignore_unreadable(schedule)
                    continue
                self._unreadable.pop(schedule.id, None)
                due_ms = await self._start_run(connection, schedule, now)
                if due_ms is not None:
                    makers.append(schedule.made_by)
                    taken.append((replace(schedule, fence=schedule.fence + 1), due_ms))
        return taken, bool(found)

    def _ignored_ids(self) -> list[str]:
        """Return the ids of the schedules to ignore: running and unreadable schedules."""
        now = time.monotonic()
        return [*self._makers, *(each for each, at in self._unreadable.items() if at > now)]

    def _ignore_unreadable(self, schedule: Schedule) -> None:
        if schedule.id not in self._unreadable:
            _log.error("schedule_unreadable", schedule_id=schedule.id, error=schedule.reason)
        self._unreadable[schedule.id] = time.monotonic() + UNREADABLE_FOR_S

    async def leave(self, schedule: Schedule, due_ms: int, outcome: Outcome) -> Schedule:
        """Store a run's outcome and the schedule's next due time.

        Raises:
            TakenOver: another run has a newer fencing token, or the schedule was deleted.
        """
        async with self._database.write() as connection:
            stored = await store.get(connection, schedule.id, lock=True)
            if stored is None or stored.fence != schedule.fence:
                raise TakenOver
            return await self._end_run(connection, stored, due_ms, outcome)

    async def _start_run(
        self, connection: AsyncConnection, schedule: Schedule, now: int
    ) -> int | None:
        """Start the run of a locked schedule; return its due time, or None if it must not run."""
        attempts = 1
        if schedule.running_due_ms is not None:
            due_ms, attempts = schedule.running_due_ms, schedule.attempts + 1
            why = _why_not_resumed(schedule, attempts, now)
            if why is not None:
                await self._end_run(connection, schedule, due_ms, Outcome(RunStatus.FAILED, why))
                return None
        else:
            assert schedule.next_due_ms is not None
            due_ms = schedule.latest(schedule.next_due_ms, now)
            is_late = now - due_ms > LATE_MS
            if is_late and schedule.missed is Missed.SKIP:
                text = _missed_text(schedule.next_due_ms, due_ms)
                await self._end_run(connection, schedule, due_ms, Outcome(RunStatus.SKIPPED, text))
                return None
            if due_ms != schedule.next_due_ms:
                # All due times before the one that runs are stored as one run, at the first one.
                text = f"Missed: nothing ran between this due time and {iso(due_ms)}"
                skipped = Outcome(RunStatus.SKIPPED, text)
                await self._store_run(connection, schedule, schedule.next_due_ms, skipped, now)
            if await store.has_run(connection, schedule.id, due_ms):
                # The clock was set back, or the schedule was changed to due times that have passed.
                await self._advance_due_time(connection, schedule, due_ms)
                return None
        frozen = await spending.freeze_reason(connection, schedule.wallet_id)
        if frozen is not None and may_spend(self._registry().skills.get(schedule.skill)):
            text = "Transactions are frozen" + (f": {frozen}" if frozen else "")
            await self._end_run(connection, schedule, due_ms, Outcome(RunStatus.SKIPPED, text))
            return None
        await store.change(
            connection,
            schedule,
            owner=self._me,
            running_due_ms=due_ms,
            fence=schedule.fence + 1,
            attempts=attempts,
            runs=schedule.runs + (attempts == 1),
        )
        started: dict[str, Any] = {"status": RunStatus.RUNNING.value, "text": "", "ended_ms": None}
        if attempts == 1:
            started["started_ms"] = now
        await store.put_run(connection, schedule.id, due_ms, started)
        return due_ms

    async def _end_run(
        self, connection: AsyncConnection, schedule: Schedule, due_ms: int, outcome: Outcome
    ) -> Schedule:
        """End the run for a due time of a schedule with a locked row."""
        await self._store_run(connection, schedule, due_ms, outcome, await self._now(connection))
        failures = schedule.failures
        if outcome.status in (RunStatus.REFUSED, RunStatus.FAILED):
            failures += 1
        elif outcome.status is RunStatus.SUCCEEDED:
            failures = 0
        pauses = outcome.pauses
        if pauses is None and failures >= PAUSE_AFTER:
            pauses = f"{failures} runs in a row were refused or failed"
        columns: dict[str, Any] = {"failures": failures}
        if pauses is not None and schedule.status is ScheduleStatus.ACTIVE:
            columns |= {"status": ScheduleStatus.PAUSED, "reason": pauses}
            subject = schedule.subject | {"reason": pauses}
            record_act(connection, EventKind.SCHEDULE_PAUSED, subject)
        return await self._advance_due_time(connection, schedule, due_ms, **columns)

    async def _advance_due_time(
        self, connection: AsyncConnection, schedule: Schedule, due_ms: int, **columns: Any
    ) -> Schedule:
        """Set the schedule's next due time after `due_ms`, or end it; also set `columns`."""
        status = columns.get("status", schedule.status)
        following = None if status is ScheduleStatus.PAUSED else schedule.next_due_ms
        if following is not None and following <= due_ms:
            # If a change during the run set a later due time, that due time stays.
            following = schedule.after(due_ms)
        if not schedule.is_unreadable:
            # An unreadable schedule keeps its due time, for a machine that can read it.
            columns["next_due_ms"] = following
        if status is ScheduleStatus.ACTIVE and (schedule.is_done or following is None):
            columns |= ended_columns(RUNS_DONE if schedule.is_done else NO_DUE_TIME)
        columns |= {"owner": None, "running_due_ms": None, "attempts": 0}
        return await store.change(connection, schedule, **columns)

    async def _store_run(
        self,
        connection: AsyncConnection,
        schedule: Schedule,
        due_ms: int,
        outcome: Outcome,
        now: int,
    ) -> None:
        """Store the outcome of a due time, and record its event."""
        status, text = outcome.status.value, outcome.text
        fields = {"status": status, "text": text, "ended_ms": now}
        await store.put_run(connection, schedule.id, due_ms, fields)
        subject = schedule.subject | {
            "skill": schedule.skill,
            "dueAt": iso(due_ms),
            "status": status,
            "text": text[:MAX_TOLD],
        }
        record_act(connection, EventKind.SCHEDULE_RUN, subject)


def ended_columns(reason: str) -> dict[str, Any]:
    """Return the columns of a schedule that has ended."""
    return {"status": ScheduleStatus.ENDED, "reason": reason, "next_due_ms": None}


def _busy_keys(makers: Iterable[str]) -> set[str]:
    """Return the API keys that already have `MOST_OF_KEY` runs; `makers` has each run's maker."""
    counted = Counter(each for each in makers if is_key(each))
    return {each for each, runs in counted.items() if runs >= MOST_OF_KEY}


def _missed_text(first_ms: int, latest_ms: int) -> str:
    if first_ms == latest_ms:
        return "Missed: nothing ran at this due time"
    return f"Missed: nothing ran between {iso(first_ms)} and this due time"


def _why_not_resumed(schedule: Schedule, attempts: int, now: int) -> str | None:
    """Return why an interrupted run is not resumed; None if it is resumed."""
    if attempts > MOST_ATTEMPTS:
        return f"The run was interrupted {MOST_ATTEMPTS} times; payments that it made remain"
    assert schedule.running_due_ms is not None
    if schedule.missed is Missed.SKIP and now - schedule.running_due_ms > RESUMED_WITHIN_MS:
        return "The interrupted run was found too late to resume; payments that it made remain"
    return None


async def actor_of(schedule: Schedule, keys: KeyCallers) -> Actor:
    """Return the actor of a schedule's transactions: its maker's key, or the schedule itself.

    Raises:
        KeyRevoked: the secret that it was made with has ended.
    """
    if schedule.key_id is None:
        who = schedule.principal
        return Actor(who, limits=((who, ScopeLimits()),))
    actor = await keys.bound_actor(schedule.key_id, schedule.key_hash or "")
    return replace(actor, via=(schedule.principal,))


async def run_once(
    schedule: Schedule,
    due_ms: int,
    *,
    registry: Registry,
    keys: KeyCallers,
    run_skill: RunSkill,
) -> Outcome:
    """Run a schedule's skill for one due time; a refusal becomes the run's outcome.

    The action keys of the skill's money calls consist of schedule, due time, skill and ordinal, so
    that a repeated run pays none of them twice.

    Raises:
        TakenOver: another run has the fencing token.
        StoreError: the database refused; the due time must be run again.
    """
    try:
        actor = await actor_of(schedule, keys)
        skill = registry.skills.get(schedule.skill)
        _check_skill(schedule, skill)
        # An interrupted run is already counted, and may have paid.
        is_first = schedule.running_due_ms is None
        if is_first and schedule.key_id is not None and may_spend(skill):
            exceeded = await keys.count_request(schedule.key_id)
            if exceeded is not None:
                return Outcome(RunStatus.SKIPPED, exceeded)
        actor = replace(
            actor,
            action_key=action_prefix(schedule.id, due_ms) + schedule.skill,
            schedule=ScheduleRun(schedule.id, schedule.fence),
            trace=f"{schedule.principal}:{iso(due_ms)}",
        )
        answer = await run_skill(schedule.skill, dict(schedule.params), schedule.wallet_id, actor)
    except (TakenOver, StoreError):
        raise
    except Held as held:
        return Outcome(RunStatus.HELD, _storable_text(held.hold.message()))
    except KeyRevoked:
        return Outcome(RunStatus.REFUSED, f"{KEY_ENDED}; nothing was sent", KEY_ENDED)
    except SkillTimeout as error:
        return Outcome(RunStatus.FAILED, _storable_text(str(error)))
    except SkillError as error:
        status = RunStatus.FAILED if error.code in _BROKEN else RunStatus.REFUSED
        return Outcome(status, _storable_text(scrub_text(str(error))))
    except SolwardError as error:
        return Outcome(RunStatus.REFUSED, _storable_text(scrub_text(str(error))))
    except Exception:
        _log.exception("schedule_failed", schedule_id=schedule.id)
        return Outcome(RunStatus.FAILED, "The run failed with an internal error")
    return Outcome(RunStatus.SUCCEEDED, _storable_text(concealed(answer)))


def may_spend(skill: LoadedSkill | None) -> bool:
    """Return whether a skill may spend; True for a skill that is not loaded."""
    return skill is None or skill.spec.effects is Effects.SPEND


def _check_skill(schedule: Schedule, skill: LoadedSkill | None) -> None:
    if skill is None:
        raise SkillError("not_loaded", f"The skill {schedule.skill!r} is not loaded")
    if skill.distribution != schedule.distribution:
        raise SkillError(
            "other_distribution",
            f"The skill {schedule.skill!r} is now from {skill.distribution}, not from"
            f" {schedule.distribution} as before; resume the schedule to run the new skill",
        )


def _storable_text(text: str) -> str:
    return cleaned(text[:MAX_TEXT])
