"""When a schedule is due: at equal distances, or by a cron expression in a time zone. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from solward.support.durations import DAY_MS, HOUR_MS, MINUTE_MS
from solward.types.errors import InvalidRequest

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_EXPRESSION: Final = 200
# How far back the latest due time is looked for, the nearest first: a due time is nearly always
# found in the first of these that has one, after few steps.
_SPANS: Final = (2 * MINUTE_MS, HOUR_MS, DAY_MS, 8 * DAY_MS, 32 * DAY_MS, 367 * DAY_MS)


@dataclass(frozen=True, slots=True)
class When:
    """The due times of a schedule, in Unix milliseconds; exactly one of `every_ms` and `cron`.

    Attributes:
        first_ms: of `every_ms` the first due time, from which the others are counted; of `cron` no
            due time is earlier.
        end_ms: no due time is later; None where there is no end.
        every_ms: distance of two due times.
        cron: five fields, as Debian's cron reads them.
        time_zone: in which `cron` is read, an IANA name.
    """

    first_ms: int
    end_ms: int | None = None
    every_ms: int | None = None
    cron: str | None = None
    time_zone: str = "UTC"

    def after(self, ms: int) -> int | None:
        """The first due time that is later than `ms`; None where there is none."""
        ms = max(ms, self.first_ms - 1)
        if self.every_ms is not None:
            found: int | None = self.first_ms
            if ms >= self.first_ms:
                found = self.first_ms + ((ms - self.first_ms) // self.every_ms + 1) * self.every_ms
        else:
            found = self._cron_after(ms)
        if found is None or (self.end_ms is not None and found > self.end_ms):
            return None
        return found

    def latest(self, due_ms: int, now_ms: int) -> int:
        """The last due time that is not later than `now_ms`, given one that is not: `due_ms`.

        Found going forward, because a time that daylight saving left out is another one going back.
        """
        if self.end_ms is not None:
            # Otherwise a long time after it is gone through from one due time to the next.
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

    def _cron_after(self, ms: int) -> int | None:
        assert self.cron is not None
        start = (_EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(self.time_zone))
        for found in CronSim(self.cron, start):
            found_ms = (found - _EPOCH) // timedelta(milliseconds=1)
            # In the hour that daylight saving repeats, a time may be found that has passed.
            if found_ms > ms:
                return found_ms
        return None


def check_cron(expression: str) -> str:
    """The expression with its spaces made single; raises `InvalidRequest`."""
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
    """The name of a time zone that this machine knows; raises `InvalidRequest`."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            "timeZone must be a time zone by its IANA name, such as Europe/Berlin"
        ) from None
