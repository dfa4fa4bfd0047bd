"""A key's rate limits in any 60 s: `rateLimit` for chats and requests that make transactions, and
`REQUESTS_PER_MINUTE` for requests of any kind."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from sqlalchemy import delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database, clock, lock_exclusive
from solward.database.tables import key_requests, key_traffic

WINDOW_S = 60.0
_WINDOW_MS = 60_000

# PostgreSQL only: on SQLite a single process serves, and counts in memory. It is one statement, so
# that clock, window and count are from one moment. The oldest of the newest `most` requests leaves
# the window first, which determines when the next request may start.
_COUNT_REQUEST = text(
    """
    WITH clock AS MATERIALIZED (
        SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
    ), expired AS (
        DELETE FROM key_requests USING clock WHERE key_id = :key AND created_ms <= ms - :window
    ), full_since AS MATERIALIZED (
        SELECT created_ms FROM key_requests, clock
        WHERE key_id = :key AND created_ms > ms - :window
        ORDER BY created_ms DESC OFFSET :most - 1 LIMIT 1
    ), counted AS (
        INSERT INTO key_requests (key_id, created_ms)
        SELECT :key, ms FROM clock WHERE NOT EXISTS (SELECT FROM full_since)
    )
    SELECT created_ms + :window - ms FROM full_since, clock
    """
)


# Like `_COUNT_REQUEST`, but for all requests, with one row per second, because there are many. No
# request waits for the disk: a crash of the database loses only the counts of half a second.
_COUNT_TRAFFIC = text(
    """
    WITH clock AS MATERIALIZED (
        SELECT floor(extract(epoch FROM clock_timestamp()))::bigint AS now
    ), expired AS (
        DELETE FROM key_traffic USING clock WHERE key_id = :key AND second < now - :window
    ), counted AS MATERIALIZED (
        SELECT coalesce(sum(requests), 0) AS requests, min(second) AS oldest
        FROM key_traffic, clock WHERE key_id = :key AND second >= now - :window
    ), added AS (
        INSERT INTO key_traffic (key_id, second, requests)
        SELECT :key, now, 1 FROM clock, counted WHERE counted.requests < :most
        ON CONFLICT (key_id, second) DO UPDATE SET requests = key_traffic.requests + 1
    )
    SELECT CASE WHEN counted.requests >= :most THEN oldest + :window + 1 - now END,
        set_config('synchronous_commit', 'off', true)
    FROM counted, clock
    """
)

# The names of the two counts in refusals.
SPENDING = "transaction requests and chats"
ALL = "requests"


class TooManyRequests(Exception):
    """A request exceeds a limit of its key; `retry_after` is in whole seconds, at least 1."""

    def __init__(self, limit: int, retry_after: int, counted: str = SPENDING) -> None:
        super().__init__(
            f"Rate limit exceeded: this API key may make {limit} {counted} a minute; "
            f"retry in {retry_after} s"
        )
        self.retry_after = retry_after


class RateLimiter:
    """Sliding windows by key id, in this process's memory; `clock` returns monotonic seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, counted: str = SPENDING
    ) -> None:
        self._clock = clock
        self._counted = counted
        self._requests: dict[str, deque[float]] = {}

    async def take(self, key_id: str, limit: int) -> None:
        """Count one request. Above the limit, raise `TooManyRequests` and do not count it."""
        now = self._clock()
        times = self._requests.setdefault(key_id, deque())
        _drop_old_times(times, now)
        if len(times) >= limit:
            # One more request is possible when this one leaves the window.
            wait = times[len(times) - limit] + WINDOW_S - now
            raise TooManyRequests(limit, _whole_seconds(wait), self._counted)
        times.append(now)

    async def request_counts(self) -> Mapping[str, int]:
        """Return key id -> number of its counted requests in the last minute."""
        now = self._clock()
        for times in self._requests.values():
            _drop_old_times(times, now)
        return {key_id: len(times) for key_id, times in self._requests.items()}

    async def forget(self, key_id: str) -> None:
        """Drop a revoked key's window."""
        self._requests.pop(key_id, None)


class SharedRateLimiter:
    """Sliding windows of `SPENDING` in the database of several processes, by its clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, key_id: str, limit: int) -> None:
        """Count one request. Above the limit, raise `TooManyRequests` and do not count it."""
        async with self._database.write() as connection:
            wait_ms = await count_request(connection, key_id, limit)
        if wait_ms is not None:
            raise TooManyRequests(limit, _whole_seconds(wait_ms / 1000))

    async def request_counts(self) -> Mapping[str, int]:
        """Return key id -> number of its counted requests in the last minute, without zeros."""
        async with self._database.read() as connection:
            since = await clock(connection) - _WINDOW_MS
            statement = (
                select(key_requests.c.key_id, func.count().label("requests"))
                .where(key_requests.c.created_ms > since)
                .group_by(key_requests.c.key_id)
            )
            return {row.key_id: row.requests for row in await connection.execute(statement)}

    async def forget(self, key_id: str) -> None:
        """Drop a revoked key's windows."""
        async with self._database.write() as connection:
            for table in (key_requests, key_traffic):
                await connection.execute(delete(table).where(table.c.key_id == key_id))


class SharedTraffic:
    """Sliding windows of `ALL` in the database of several processes, by the database's clock.

    It never counts more requests than the limit in a window. A window may be up to a second longer,
    because the second in which it begins counts as a whole.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, key_id: str, limit: int) -> None:
        """Count one request. Above the limit, raise `TooManyRequests` and do not count it."""
        parameters = {"key": key_id, "most": limit, "window": int(WINDOW_S)}
        async with self._database.write() as connection:
            await lock_exclusive(connection, f"key-traffic:{key_id}")
            wait_s = (await connection.execute(_COUNT_TRAFFIC, parameters)).scalar_one()
        if wait_s is not None:
            raise TooManyRequests(limit, max(1, int(wait_s)), ALL)


async def count_request(connection: AsyncConnection, key_id: str, most: int) -> int | None:
    """Count one request of a key, unless its window, by the database's clock, already has `most`.

    Returns:
        None if it was counted, else the milliseconds until the next request may start.
    """
    # Locked before the statement, which then sees the commits of all earlier lock holders.
    await lock_exclusive(connection, f"key-requests:{key_id}")
    parameters = {"key": key_id, "most": most, "window": _WINDOW_MS}
    return (await connection.execute(_COUNT_REQUEST, parameters)).scalar_one_or_none()


Limiter: TypeAlias = RateLimiter | SharedRateLimiter
Taking: TypeAlias = RateLimiter | SharedTraffic


def limiter(database: Database) -> Limiter:
    """Return the limiter that counts `SPENDING` for all processes of the database."""
    return SharedRateLimiter(database) if database.shared else RateLimiter()


def traffic_limiter(database: Database) -> Taking:
    """Return the limiter that counts `ALL` for all processes of the database."""
    return SharedTraffic(database) if database.shared else RateLimiter(counted=ALL)


def _drop_old_times(times: deque[float], now: float) -> None:
    """Drop the times that have left the window."""
    while times and times[0] <= now - WINDOW_S:
        times.popleft()


def _whole_seconds(wait_s: float) -> int:
    """Return whole seconds, rounded up, at least 1."""
    return max(1, math.ceil(wait_s))
