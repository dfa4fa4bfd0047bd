"""Time in the store's format: whole milliseconds since the Unix epoch, UTC."""

from __future__ import annotations

import functools
import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_ms() -> int:
    """Return milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


def ms_of(text: str) -> int:
    """Convert an ISO 8601 time with a zone, such as `2026-12-31T00:00:00Z`, to milliseconds since
    the Unix epoch; raises ValueError, and OverflowError outside the years 1 to 9999."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def iso(ms: int) -> str:
    """Format a time as ISO 8601 in UTC with milliseconds: `2026-11-21T09:00:00.000Z`."""
    return f"{_seconds(ms // 1000)}.{ms % 1000:03d}Z"


def time_json(ms: int | None) -> str | None:
    """Return a time in its JSON form, as `iso` formats it; None stays None."""
    return None if ms is None else iso(ms)


# Every record and event has a time, and those made close together share the second.
@functools.lru_cache(maxsize=256)
def _seconds(seconds: int) -> str:
    # This takes a sixth of the time of `strftime`.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
