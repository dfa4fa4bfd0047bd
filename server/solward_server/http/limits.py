"""Rate limits of a key in any 60 s: `rateLimit` transaction-producing requests and chats, and
`REQUESTS_PER_MINUTE` requests of any kind."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from solward.credentials import api_keys as store
from solward.database.database import Database

WINDOW_S = 60.0


# What is counted, as a refusal calls it.
SPENDING = "transaction requests and chats"
ALL = "requests"


class TooManyRequests(Exception):
    """A limit of the key is used up; `retry_after` is in whole seconds, at least 1."""

    def __init__(self, limit: int, retry_after: int, counted: str = SPENDING) -> None:
        super().__init__(
            f"Rate limit exceeded: this API key may make {limit} {counted} a minute; "
            f"retry in {retry_after} s"
        )
        self.retry_after = retry_after


class Taking(Protocol):
    """Counts requests of keys, in this process or in the database for all that share it."""

    async def take(self, key_id: str, limit: int) -> None:
        """Count one request; raises `TooManyRequests`, and a refused one is not counted."""


class Limiter(Taking, Protocol):
    """As `Taking`, and tells what it counted."""

    async def used(self) -> Mapping[str, int]:
        """key id -> its counted requests of the last minute; keys without any may be left out."""

    async def forget(self, key_id: str) -> None:
        """Drop a revoked key's window."""


class RateLimiter:
    """Sliding windows by key id, in this process; `clock` gives monotonic seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, counted: str = SPENDING
    ) -> None:
        self._clock = clock
        self._counted = counted
        self._requests: dict[str, deque[float]] = {}

    async def take(self, key_id: str, limit: int) -> None:
        """Count one request; raises `TooManyRequests`, and a refused one is not counted."""
        now = self._clock()
        times = self._requests.setdefault(key_id, deque())
        _shift(times, now)
        if len(times) >= limit:
            # Room for one more request comes when this one leaves the window.
            wait = times[len(times) - limit] + WINDOW_S - now
            raise TooManyRequests(limit, _seconds(wait), self._counted)
        times.append(now)

    async def used(self) -> Mapping[str, int]:
        """key id -> its counted requests of the last minute."""
        now = self._clock()
        for times in self._requests.values():
            _shift(times, now)
        return {key_id: len(times) for key_id, times in self._requests.items()}

    async def forget(self, key_id: str) -> None:
        """Drop a revoked key's window."""
        self._requests.pop(key_id, None)


class SharedRateLimiter:
    """The windows of `SPENDING` in the database that several processes share, by its clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, key_id: str, limit: int) -> None:
        """Count one request; raises `TooManyRequests`, and a refused one is not counted."""
        async with self._database.write() as connection:
            wait_ms = await store.count_request(connection, key_id, limit, int(WINDOW_S * 1000))
        if wait_ms is not None:
            raise TooManyRequests(limit, _seconds(wait_ms / 1000))

    async def used(self) -> Mapping[str, int]:
        """key id -> its counted requests of the last minute."""
        async with self._database.read() as connection:
            return await store.requests_counted(connection, int(WINDOW_S * 1000))

    async def forget(self, key_id: str) -> None:
        """Drop a revoked key's window."""
        async with self._database.write() as connection:
            await store.delete_requests(connection, key_id)


class SharedTraffic:
    """The windows of `ALL` in that database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, key_id: str, limit: int) -> None:
        """Count one request; raises `TooManyRequests`, and a refused one is not counted."""
        async with self._database.write() as connection:
            wait_s = await store.count_traffic(connection, key_id, limit, int(WINDOW_S))
        if wait_s is not None:
            raise TooManyRequests(limit, max(1, wait_s), ALL)


def _shift(times: deque[float], now: float) -> None:
    """Drop what has left the window."""
    while times and times[0] <= now - WINDOW_S:
        times.popleft()


def _seconds(wait_s: float) -> int:
    """Whole seconds, rounded up, at least 1."""
    return max(1, math.ceil(wait_s))
