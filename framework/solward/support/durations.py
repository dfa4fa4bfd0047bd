"""Durations in whole milliseconds, the unit of every stored time.

They are not in `solward.support.clock`, because guardrails need them for their windows but may
not import a clock.
"""

from __future__ import annotations

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
