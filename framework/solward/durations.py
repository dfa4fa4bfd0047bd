"""Lengths of time in the store's unit, whole milliseconds. Apart from `solward.clock`, so that
the pure rooms, which may not read the time, state their windows in the same numbers."""

from __future__ import annotations

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
