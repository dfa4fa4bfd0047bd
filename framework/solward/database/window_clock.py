"""The end of rolling windows: a time that no single wrong clock can move ahead.

The database's clock is that of a machine: if it were set a day ahead, every limit's window would be
empty. So windows end at the database's time, but at most `LEAD_MS` after the ledger's time. This is
the latest accepted time of the ledger; it advances with the machine's uptime, which setting a clock
does not change, and it is stored, so that it never goes back. A reservation is stamped with the
later of both times: a wrong clock keeps it in its windows longer, never shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from solward.support.durations import DAY_MS, MINUTE_MS
from solward.telemetry import metrics

# Validators' votes set the ledger's time, some seconds from the time of day.
LEAD_MS = MINUTE_MS
# If the windows are further behind, no reservation is made: it would stay in them for too long
# after the clock was corrected.
MOST_BEHIND_MS = DAY_MS
# The stored time may be older than the one in memory by this much, because only some reservations
# write it.
_KEEP_MS = MINUTE_MS

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment as two clocks measure it, in milliseconds since the epoch.

    Attributes:
        database_ms: the time by the database's clock, which records have.
        window_ms: the end of the windows; a window begins its length before this time.
    """

    database_ms: int
    window_ms: int

    @property
    def reserved_ms(self) -> int:
        """The stamp of a reservation made now."""
        return max(self.database_ms, self.window_ms)

    @property
    def behind_ms(self) -> int:
        """Milliseconds from the windows' end to the database's time, at least 0."""
        return max(0, self.database_ms - self.window_ms)


def _uptime_ms() -> int:
    # Linux's boot-time clock goes on while the machine sleeps; a monotonic clock may not.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class WindowClock:
    """A process's clock for the windows of limits."""

    def __init__(self, uptime_ms: Callable[[], int] = _uptime_ms) -> None:
        self._uptime_ms = uptime_ms
        # The ledger's time at uptime 0; None before any is known.
        self._offset: int | None = None
        # The time that a node returned, and the machine's uptime at that moment.
        self._observed: tuple[int, int] | None = None
        self._stored_ms = 0
        self._last_ms = 0
        # Whether a node answered this process; before, a long stop looks like a clock ahead.
        self._is_observed = False
        self._is_behind = False

    def observe(self, ledger_ms: int) -> None:
        """Record the ledger's time that a node has just returned."""
        self._observed = (ledger_ms, self._uptime_ms())

    def moment(self, database_ms: int, stored_ms: int = 0) -> Moment:
        """Return the moment when the database's clock reads `database_ms`.

        Args:
            stored_ms: the ledger's time in the database; 0 if it has none.
        """
        uptime = self._uptime_ms()
        if stored_ms > self._stored_ms:
            self._stored_ms = stored_ms
            self._advance_offset(stored_ms - uptime)
        if self._observed is not None:
            (ledger_ms, at), self._observed = self._observed, None
            self._is_observed = True
            # A node whose time is ahead or false cannot move the end beyond the database's time.
            self._advance_offset(min(ledger_ms, database_ms - (uptime - at)) - at)
        if self._offset is None:
            # Before the first transaction all windows are empty.
            return Moment(database_ms, database_ms)
        ledger = self._offset + uptime
        self._last_ms = max(self._last_ms, ledger, min(database_ms, ledger + LEAD_MS))
        moment = Moment(database_ms, self._last_ms)
        self._report_moment(moment)
        return moment

    def time_to_store(self) -> int | None:
        """Return the ledger's time if it is due to be stored, else None."""
        if self._offset is None:
            return None
        ledger = self._offset + self._uptime_ms()
        if ledger < self._stored_ms + _KEEP_MS:
            return None
        self._stored_ms = ledger
        return ledger

    def _advance_offset(self, offset: int) -> None:
        self._offset = offset if self._offset is None else max(self._offset, offset)

    def _report_moment(self, moment: Moment) -> None:
        metrics.WINDOWS_BEHIND.set(moment.behind_ms / 1000)
        is_behind = self._is_observed and moment.behind_ms > 0
        if is_behind and not self._is_behind:
            _log.warning("windows_behind", seconds=moment.behind_ms // 1000)
        elif self._is_behind and not is_behind:
            _log.info("windows_in_time")
        self._is_behind = is_behind
