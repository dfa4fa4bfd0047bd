"""When a schedule is due, read from a request; every refusal names the field."""

from __future__ import annotations

from solward.resources.schedules import EVERY, NewSchedule
from solward.schedules.schedule import When, check_cron, check_zone
from solward.support.clock import ms_of
from solward.types.errors import InvalidRequest
from solward.vault.grants.spelling import window_ms


def read_when(asked: NewSchedule, now_ms: int) -> When:
    """The due times.

    Args:
        now_ms: from which `every` counts where there is no `startAt`.

    Raises:
        InvalidRequest: naming the field; also where no due time is left.
    """
    start, end = _ms(asked.start_at), _ms(asked.end_at)
    if (asked.every is None) == (asked.cron is None):
        raise InvalidRequest(
            'either every, such as "1h", or cron, such as "0 9 1 * *", is required'
        )
    if asked.cron is not None:
        when = When(
            first_ms=now_ms if start is None else start,
            end_ms=end,
            cron=check_cron(asked.cron),
            time_zone="UTC" if asked.time_zone is None else check_zone(asked.time_zone),
        )
    else:
        if asked.time_zone is not None:
            raise InvalidRequest("timeZone is for cron; every counts from startAt")
        length = window_ms(asked.every or "")
        if length is None:
            raise InvalidRequest(EVERY.wrong)
        when = When(
            first_ms=now_ms + length if start is None else start, end_ms=end, every_ms=length
        )
    if when.after(now_ms) is None:
        raise InvalidRequest("endAt leaves no due time from now on")
    return when


def _ms(text: str | None) -> int | None:
    return None if text is None else ms_of(text)
