"""A schedule's fields, read from a request body; every refusal names the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from solward.schedules.schedule import Missed, When, check_cron, check_zone
from solward.support.clock import ms_of
from solward.types.errors import InvalidRequest, refuse_unknown
from solward.vault.grants.spelling import window_ms

MAX_NAME: Final = 100
MAX_RUNS: Final = 1_000_000
_FIELDS: Final = frozenset(
    {
        *("name", "skill", "parameters", "every", "cron", "timeZone", "startAt", "endAt"),
        *("maxRuns", "missed", "grants"),
    }
)
WHEN_FIELDS: Final = ("every", "cron", "timeZone", "startAt", "endAt")


def check_fields(body: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` for a field that there is none of: what was meant would not hold."""
    refuse_unknown(body, _FIELDS)


def read_name(body: Mapping[str, Any]) -> str:
    """The name: one line."""
    value = body.get("name")
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest("name is required")
    if len(value) > MAX_NAME or not value.isprintable():
        raise InvalidRequest(f"name must be one line of at most {MAX_NAME} characters")
    return value.strip()


def read_skill(body: Mapping[str, Any]) -> str:
    """The skill's name."""
    value = body.get("skill")
    if not isinstance(value, str) or not value:
        raise InvalidRequest("skill is required: the name of one, as GET /skills lists them")
    return value


def read_params(body: Mapping[str, Any]) -> dict[str, Any]:
    """The skill's parameters; none where they are left out."""
    value = body.get("parameters")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest("parameters must be an object, as the skill's schema says")
    return dict(value)


def read_missed(body: Mapping[str, Any]) -> Missed:
    """What becomes of missed due times; `skip` where it is left out."""
    value = body.get("missed")
    if value is None:
        return Missed.SKIP
    try:
        return Missed(value)
    except ValueError:
        raise InvalidRequest('missed must be "skip" or "once"') from None


def read_max_runs(body: Mapping[str, Any]) -> int | None:
    """The number of runs after which it ends; None for any number."""
    value = body.get("maxRuns")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RUNS:
        raise InvalidRequest(f"maxRuns must be a whole number from 1 to {MAX_RUNS}")
    return value


def read_when(body: Mapping[str, Any], now_ms: int) -> tuple[When, bool]:
    """The due times, and whether `startAt` is given.

    Args:
        now_ms: from which `every` counts where there is no `startAt`.

    Raises:
        InvalidRequest: naming the field; also where no due time is left.
    """
    start, end = _time(body, "startAt"), _time(body, "endAt")
    every, cron = body.get("every"), body.get("cron")
    if (every is None) == (cron is None):
        raise InvalidRequest(
            'either every, such as "1h", or cron, such as "0 9 1 * *", is required'
        )
    if cron is not None:
        if not isinstance(cron, str):
            raise InvalidRequest("cron must be text")
        when = When(
            first_ms=now_ms if start is None else start,
            end_ms=end,
            cron=check_cron(cron),
            time_zone=_zone(body),
        )
    else:
        if body.get("timeZone") is not None:
            raise InvalidRequest("timeZone is for cron; every counts from startAt")
        length = window_ms(every) if isinstance(every, str) else None
        if length is None:
            raise InvalidRequest('every must be "1m" to "30d", such as "15m", "1h" or "7d"')
        when = When(
            first_ms=now_ms + length if start is None else start, end_ms=end, every_ms=length
        )
    if when.after(now_ms) is None:
        raise InvalidRequest("endAt leaves no due time from now on")
    return when, start is not None


def _zone(body: Mapping[str, Any]) -> str:
    value = body.get("timeZone")
    if value is None:
        return "UTC"
    if not isinstance(value, str):
        raise InvalidRequest("timeZone must be text")
    return check_zone(value)


def _time(body: Mapping[str, Any], field: str) -> int | None:
    value = body.get(field)
    if value is None:
        return None
    try:
        found = ms_of(value) if isinstance(value, str) else -1
    except (ValueError, OverflowError):
        found = -1
    if not 0 <= found <= _LATEST_MS:
        raise InvalidRequest(
            f"{field} must be an ISO 8601 time with its zone, such as 2026-12-31T00:00:00Z"
        )
    return found


# The end of the year 2199: a due time's text has 13 digits until then, which orders them.
_LATEST_MS: Final = 7_258_118_399_999
