"""The `solward` command with the demo providers, whose agents go by rules.

Where `CLOCK_AHEAD_MS` is set, this process' clock, and no other, is that far ahead. The service
itself has no such switch; this script puts it in from outside.
"""

from __future__ import annotations

import functools
import os
import time


def set_clock(ahead_ms: int) -> None:
    """Whatever this process reads as the time of day is `ahead_ms` later; negative: earlier."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + ahead_ms / 1000
    time.time_ns = lambda: nanoseconds() + ahead_ms * 1_000_000


if __name__ == "__main__":
    # Before anything is imported that keeps a clock's function.
    set_clock(int(os.environ.get("CLOCK_AHEAD_MS", "0")))

    import solward_cli
    from solward.service.service import Solward

    Solward.open = functools.partial(Solward.open, demo=True)  # type: ignore[method-assign]
    solward_cli.main()
