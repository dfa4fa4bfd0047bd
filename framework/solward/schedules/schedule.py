"""A schedule as a request, a row and JSON, and its due times: at a fixed interval, or by a cron
expression in a time zone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from sqlalchemy import RowMapping

from solward.resources import schedules
from solward.resources.declare import answer_json, fields_of
from solward.resources.schedules import EVERY, Missed, NewSchedule, ScheduleStatus
from solward.runner import next_due_ms
from solward.support import jsontext
from solward.support.clock import iso, ms_of, time_json
from solward.support.durations import DAY_MS, HOUR_MS, MINUTE_MS
from solward.types.errors import InvalidRequest
from solward.vault.grants.spelling import window_ms, window_text

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_EXPRESSION: Final = 200
_LONGEST_REASON: Final = 300
# The time spans to search back for the latest due time, shortest first. The first span with a due
# time has few due times, so that the search takes few steps.
_SPANS: Final = (2 * MINUTE_MS, HOUR_MS, DAY_MS, 8 * DAY_MS, 32 * DAY_MS, 367 * DAY_MS)


@dataclass(frozen=True, slots=True)
class ScheduleTimes:
    """Due times in Unix milliseconds; exactly one of `every_ms` and `cron` is set.

    Attributes:
        first_ms: with `every_ms`, the first due time; with `cron`, no due time is earlier.
        end_ms: no due time is later; None if there is no end.
        every_ms: the interval between two due times.
        cron: five fields, with the meaning of Debian's cron.
        time_zone: the IANA name of the time zone for `cron`.
    """

    first_ms: int
    end_ms: int | None = None
    every_ms: int | None = None
    cron: str | None = None
    time_zone: str = "UTC"

    def after(self, ms: int) -> int | None:
        """Return the first due time later than `ms`; None if there is none."""
        ms = max(ms, self.first_ms - 1)
        if self.every_ms is not None:
            found: int | None = self.first_ms
            if ms >= self.first_ms:
                found = next_due_ms(self.first_ms, self.every_ms, ms)
        else:
            found = self._cron_due_after(ms)
        if found is None or (self.end_ms is not None and found > self.end_ms):
            return None
        return found

    def latest(self, due_ms: int, now_ms: int) -> int:
        """Return the last due time up to `now_ms`; `due_ms` is an earlier due time.

        It searches forward, because for a local time that daylight saving skips, a search backward
        would find another due time.
        """
        if self.end_ms is not None:
            # Long after the end no span has a due time, and the search would start at `due_ms`.
            now_ms = min(now_ms, self.end_ms)
        for span in _SPANS:
            start = now_ms - span
            if start <= due_ms:
                break
            found = self.after(start)
            if found is not None and found <= now_ms:
                due_ms = found
                break
        while (following := self.after(due_ms)) is not None and following <= now_ms:
            due_ms = following
        return due_ms

    def _cron_due_after(self, ms: int) -> int | None:
        assert self.cron is not None
        start = (_EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(self.time_zone))
        for found in CronSim(self.cron, start):
            found_ms = (found - _EPOCH) // timedelta(milliseconds=1)
            # In the hour that daylight saving repeats, CronSim may find a time that has passed.
            if found_ms > ms:
                return found_ms
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(ScheduleTimes):
    """One stored schedule.

    Attributes:
        distribution: the distribution that had the skill when the schedule was made; a skill of the
            same name from another distribution is not run.
        params: the skill's parameters, as given.
        has_start: whether `first_ms` was given as `startAt`.
        max_runs: the number of runs after which it ends; None is no limit.
        reason: why it is paused or has ended; None while it is active.
        made_by: the principal whose rights it has: `admin` or `key:<id>`.
        key_hash: hash of the secret that made, changed or resumed it last; it ends with the secret.
        next_due_ms: the next due time; None if it is paused or never due again.
        running_due_ms: the due time whose run is active or was interrupted.
        owner: the process that runs it.
        fence: the fencing token of its latest run.
        attempts: how often the run for `running_due_ms` was started.
        runs: the number of started runs.
        failures: the number of consecutive runs that were refused or failed.
        is_unreadable: whether this machine cannot read its row; it is then shown as paused.
    """

    id: str
    name: str
    wallet_id: str
    skill: str
    distribution: str
    params: Mapping[str, Any]
    has_start: bool
    missed: Missed
    max_runs: int | None
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    reason: str | None = None
    made_by: str
    key_hash: str | None = field(repr=False)
    created_ms: int
    next_due_ms: int | None = None
    running_due_ms: int | None = None
    owner: str | None = None
    fence: int = 0
    attempts: int = 0
    runs: int = 0
    failures: int = 0
    is_unreadable: bool = False

    @property
    def principal(self) -> str:
        """The schedule's name in grants and records."""
        return f"schedule:{self.id}"

    @property
    def key_id(self) -> str | None:
        """The id of the API key that created the schedule; None for the operator."""
        kind, _, key_id = self.made_by.partition(":")
        return key_id if kind == "key" else None

    @property
    def is_done(self) -> bool:
        """True if the schedule has run `max_runs` times."""
        return self.max_runs is not None and self.runs >= self.max_runs

    @property
    def subject(self) -> dict[str, str]:
        """The schedule's ids and name for the audit log."""
        return {"scheduleId": self.id, "walletId": self.wallet_id, "name": self.name}

    def terms(self) -> dict[str, Any]:
        """Return the fields of `to_json` that a request can set."""
        return {name: value for name, value in self.to_json().items() if name in TERMS}

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as JSON for routes."""
        due: dict[str, Any] = {"every": None}
        if self.every_ms is not None:
            due = {"every": window_text(self.every_ms), "cron": None, "time_zone": None}
        return answer_json(
            schedules.Schedule,
            self,
            parameters=dict(self.params),
            start_at=iso(self.first_ms) if self.has_start else None,
            next_run_at=time_json(self.next_due_ms),
            is_running=self.running_due_ms is not None,
            **due,
        )

    def to_row(self) -> dict[str, Any]:
        """Return the columns of the schedule's row."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        texts = {"missed": self.missed.value, "status": self.status.value}
        return columns | texts | {"params": jsontext.dumps(dict(self.params))}


TERMS: Final = frozenset(each.json for each in fields_of(NewSchedule))
"""The fields that a request can set, by their JSON names."""
_COLUMNS: Final = tuple(each.name for each in fields(Schedule) if each.name != "is_unreadable")


def schedule_of(row: RowMapping) -> Schedule:
    """Return the schedule in a row that another version or machine may have stored.

    If this machine cannot read the row, the schedule is returned as paused, with the reason, so
    that one bad row does not hide the other schedules.
    """
    read: dict[str, Any] = {"params": {}, "missed": Missed.SKIP, "status": ScheduleStatus.PAUSED}
    try:
        read["params"] = dict(jsontext.loads(row["params"]))
        read["missed"] = Missed(row["missed"])
        if row["every_ms"] is None:
            check_cron(row["cron"] or "")
            check_zone(row["time_zone"])
        elif row["every_ms"] <= 0:
            raise InvalidRequest("every must be positive")
        read["status"] = ScheduleStatus(row["status"])
    except (InvalidRequest, ValueError, TypeError, RecursionError) as error:
        reason = f"This machine cannot read the schedule, so it does not run it: {error}"
        read |= {"reason": reason[:_LONGEST_REASON], "is_unreadable": True}
    return Schedule(**{**row, **read})


def read_times(asked: NewSchedule, now_ms: int) -> ScheduleTimes:
    """Return the due times of a request.

    Args:
        now_ms: the time from which `every` counts if there is no `startAt`.

    Raises:
        InvalidRequest: a field is wrong, or no due time is left; names the field.
    """
    start, end = (None if each is None else ms_of(each) for each in (asked.start_at, asked.end_at))
    if (asked.every is None) == (asked.cron is None):
        raise InvalidRequest(
            'either every, such as "1h", or cron, such as "0 9 1 * *", is required'
        )
    if asked.cron is not None:
        when = ScheduleTimes(
            first_ms=now_ms if start is None else start,
            end_ms=end,
            cron=check_cron(asked.cron),
            time_zone="UTC" if asked.time_zone is None else check_zone(asked.time_zone),
        )
    else:
        if asked.time_zone is not None:
            raise InvalidRequest("timeZone is only for cron; the interval every starts at startAt")
        length = window_ms(asked.every or "")
        if length is None:
            raise InvalidRequest(EVERY.wrong)
        first_ms = now_ms + length if start is None else start
        when = ScheduleTimes(first_ms=first_ms, end_ms=end, every_ms=length)
    if when.after(now_ms) is None:
        raise InvalidRequest("there is no due time from now until endAt")
    return when


def check_cron(expression: str) -> str:
    """Return a cron expression with single spaces; raises `InvalidRequest`."""
    text = " ".join(expression.split())
    if len(text) > _LONGEST_EXPRESSION or len(text.split()) != 5:
        raise InvalidRequest(_CRON_EXPECTED)
    try:
        due = next(CronSim(text, datetime(2024, 1, 1)), None)
    except CronSimError as error:
        raise InvalidRequest(f"{_CRON_EXPECTED}: {error}") from None
    if due is None:
        raise InvalidRequest("cron is never due")
    return text


_CRON_EXPECTED = (
    "cron must have five fields, minute, hour, day of month, month and day of week,"
    ' such as "0 9 1 * *"'
)


def check_zone(name: str) -> str:
    """Return the name of a time zone; raises `InvalidRequest` if this machine does not know it."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            "timeZone must be a time zone by its IANA name, such as Europe/Berlin"
        ) from None
