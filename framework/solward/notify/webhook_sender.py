"""Telling a receiver over HTTP what is stored for it: signed, at least once, across crashes.

What is told is a row of the transaction that it tells of, so that a process killed right after it
loses nothing, and is sent until the receiver takes it or a day is over. Of the receiver's answer
the status counts and nothing is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database, clock
from solward.notify import deliveries as store
from solward.notify.deliveries import Channel, Claimed
from solward.support.durations import DAY_MS
from solward.support.tasks import in_background
from solward.support.webhook_signature import DELIVERY, SIGNATURE, TIMESTAMP, delivery_signature
from solward.telemetry import metrics
from solward.types.errors import StoreError
from solward.types.events import Event

# What each process sends at the same time.
_AT_ONCE = 8
# Between two looks for something due where none was free.
_LEAST_WAIT_S = 0.1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a delivery takes and waits.

    Attributes:
        first_retry_s: after the first failure; doubled after each, up to `longest_retry_s`, and
            then shortened by up to a half at random, so that many do not come at once.
        give_up_s: after what it tells happened.
        timeout_s: of the whole request.
        lease_s: until another process may send what this one claimed; longer than `timeout_s`.
        poll_s: between two looks for what a process that died left.
        gather_s: from the news of something to tell to the look for it.
    """

    first_retry_s: float = 5.0
    longest_retry_s: float = 900.0
    give_up_s: float = DAY_MS / 1000
    timeout_s: float = 10.0
    lease_s: float = 30.0
    poll_s: float = 30.0
    gather_s: float = 0.0

    def retry_ms(self, tries: int) -> int:
        """The wait after as many failures."""
        longest = min(self.longest_retry_s, self.first_retry_s * 2 ** min(tries - 1, 32))
        return int(longest * random.uniform(0.5, 1.0) * 1000)  # noqa: S311 - spreads load


class Sender(ABC):
    """Tells one receiver; several processes on one database share the work.

    Attributes:
        channel: which rows are this receiver's.
    """

    channel: Channel

    def __init__(self, database: Database, url: str, secret: str, pace: Pace) -> None:
        self._database = database
        self._url = url
        self._secret = secret
        self._pace = pace
        self._woken = asyncio.Event()

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Inside the block, what is to be told is stored with what it tells of, and sent."""
        database = self._database
        publish, earlier = database.on_committed, database.before_commit

        def on_committed(events: Sequence[Event]) -> None:
            if publish is not None:
                publish(events)
            if any(map(self._concerns, events)):
                self._woken.set()

        async def before_commit(connection: AsyncConnection) -> None:
            if earlier is not None:
                await earlier(connection)
            await self._enqueue(connection)

        if not database.shared:
            # The home's lock proves that no other process sends.
            async with database.write() as connection:
                await store.forget_leases(connection, self.channel)
        database.before_commit, database.on_committed = before_commit, on_committed
        try:
            async with in_background(self._deliver(), f"solward-{self.channel}"):
                yield
        finally:
            database.before_commit, database.on_committed = earlier, publish

    @abstractmethod
    def _concerns(self, event: Event) -> bool:
        """Whether a committed event may have left something to tell."""

    @abstractmethod
    async def _enqueue(self, connection: AsyncConnection) -> None:
        """Store what the events of this write transaction tell, as part of it."""

    @abstractmethod
    def _give_up(self, connection: AsyncConnection, claimed: Claimed, failure: str) -> None:
        """Say in the transaction that ends a delivery that its receiver was never told."""

    async def _prepare(self, connection: AsyncConnection) -> None:  # noqa: B027 - nothing to do
        """Store what is to be told now, right before what is due is claimed."""

    async def _next_due(self, connection: AsyncConnection) -> int | None:
        """Milliseconds until something is due, at least 0; None where nothing waits."""
        return await store.next_due(connection, self.channel)

    async def _deliver(self) -> None:
        async with new_client() as client:
            while True:
                pause = self._pace.poll_s
                try:
                    while await self._deliver_due(client):
                        pass
                    pause = await self._pause()
                except StoreError as error:
                    _log.warning("webhook_waits", webhook=self.channel, error=str(error))
                except Exception:
                    # What is told must not end with one delivery that has a bug.
                    _log.exception("webhook_crashed", webhook=self.channel)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                        # Of what comes in a rush, one look finds all.
                        await asyncio.sleep(self._pace.gather_s)
                self._woken.clear()

    async def _pause(self) -> float:
        async with self._database.read() as connection:
            due_ms = await self._next_due(connection)
        if due_ms is None:
            return self._pace.poll_s
        return min(self._pace.poll_s, max(_LEAST_WAIT_S, due_ms / 1000))

    async def _deliver_due(self, client: httpx.AsyncClient) -> bool:
        """Send what is due, a few at a time; whether there was something."""
        async with self._database.write() as connection:
            await self._prepare(connection)
            lease_ms = int(self._pace.lease_s * 1000)
            claimed = await store.claim(connection, self.channel, _AT_ONCE, lease_ms)
            if not claimed:
                await store.forget_old(connection)
        async with asyncio.TaskGroup() as group:
            for each in claimed:
                group.create_task(self._try(client, each))
        return bool(claimed)

    async def _try(self, client: httpx.AsyncClient, claimed: Claimed) -> None:
        try:
            await self._end_try(claimed, await self._send(client, claimed))
        except StoreError as error:
            # It is sent again when the lease has run out.
            _log.warning(
                "webhook_waits", webhook=self.channel, delivery=claimed.id, error=str(error)
            )
        except Exception:
            # So is one that has a bug; those that are sent beside it go on.
            _log.exception("webhook_crashed", webhook=self.channel, delivery=claimed.id)

    async def _end_try(self, claimed: Claimed, failure: str | None) -> None:
        async with self._database.write() as connection:
            now = await clock(connection)
            end_ms = claimed.created_ms + int(self._pace.give_up_s * 1000)
            if failure is None:
                outcome = "delivered"
                await store.end_try(connection, claimed, "delivered")
            elif now < end_ms:
                outcome = "failed"
                next_ms = min(now + self._pace.retry_ms(claimed.tries), end_ms)
                await store.end_try(connection, claimed, "waiting", next_ms)
            else:
                outcome = "given_up"
                if await store.end_try(connection, claimed, "given_up"):
                    self._give_up(connection, claimed, failure)
        metrics.WEBHOOK_DELIVERIES.labels(self.channel, outcome).inc()
        if failure is not None:
            _log.warning(
                "webhook_failed",
                webhook=self.channel,
                delivery=claimed.id,
                tries=claimed.tries,
                error=failure,
            )

    async def _send(self, client: httpx.AsyncClient, claimed: Claimed) -> str | None:
        body, second = claimed.body.encode(), claimed.claimed_ms // 1000
        return await send(
            client, self._url, self._secret, claimed.id, body, second, self._pace.timeout_s
        )


async def send(
    client: httpx.AsyncClient,
    url: str,
    secret: str,
    delivery: str,
    body: bytes,
    second: int,
    timeout_s: float,
) -> str | None:
    """Send a delivery once, signed.

    Args:
        client: of `new_client`.
        second: now, in Unix seconds.

    Returns:
        What failed, without the address; None where it was taken.
    """
    timestamp = str(second)
    headers = {
        "Content-Type": "application/json",
        DELIVERY: delivery,
        TIMESTAMP: timestamp,
        SIGNATURE: delivery_signature(secret, timestamp, delivery, body),
    }
    try:
        async with (
            asyncio.timeout(timeout_s),
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            return None if response.is_success else f"HTTP {response.status_code}"
    except TimeoutError:
        return "no answer in time"
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        # Its text may quote the address, which is a secret.
        return type(error).__name__


def new_client() -> httpx.AsyncClient:
    """A client for `send`, which closes its connection after each request."""
    return httpx.AsyncClient(
        # No proxies and no credentials of the environment; the connection is closed each time,
        # because the answer is not read.
        trust_env=False,
        follow_redirects=False,
        # One timeout for all of it, in `send`.
        timeout=None,  # noqa: S113
        limits=httpx.Limits(max_keepalive_connections=0),
    )
