"""Time in the store's format: whole milliseconds since the Unix epoch, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime

MINUTE_MS = 60_000
DAY_MS = 86_400_000


def now_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


def iso(ms: int) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-11-21T09:00:00.000Z`."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
