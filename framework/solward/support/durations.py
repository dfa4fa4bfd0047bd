"""Lengths of time in whole milliseconds, the unit of every stored time.

Apart from `solward.support.clock`, because guardrails may not import a clock and state their
windows in the same numbers.
"""

from __future__ import annotations

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
