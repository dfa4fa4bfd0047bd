"""How many transaction-producing requests a key may make: its `rateLimit` in any 60 seconds."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 60.0


class TooManyRequests(Exception):
    """The key's `rateLimit` is used up; `retry_after` is in whole seconds, at least 1."""

    def __init__(self, limit: int, retry_after: int) -> None:
        super().__init__(
            f"Rate limit exceeded: this API key may make {limit} transaction requests a minute; "
            f"retry in {retry_after} s"
        )
        self.retry_after = retry_after


class RateLimiter:
    """Sliding windows by key id, in this process; `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._taken: dict[str, deque[float]] = {}

    def take(self, key_id: str, limit: int) -> None:
        """Count one request; raises `TooManyRequests`, and a refused one is not counted."""
        now = self._clock()
        taken = self._taken.setdefault(key_id, deque())
        while taken and taken[0] <= now - WINDOW_S:
            taken.popleft()
        if len(taken) >= limit:
            # Room comes when the oldest that fills the last place leaves the window.
            wait = taken[len(taken) - limit] + WINDOW_S - now
            raise TooManyRequests(limit, max(1, math.ceil(wait)))
        taken.append(now)

    def forget(self, key_id: str) -> None:
        """Drop a revoked key's window."""
        self._taken.pop(key_id, None)
