"""Deliveries to receivers over HTTP, each made at least once even if a process crashes.

A delivery is a row stored in the transaction of its event, so it is not lost if the process is
killed. It is sent until the receiver accepts it, refuses it for good, or a day is over. A subclass
of `Sender` makes the requests. Of a webhook's answer only the status counts; nothing else is read.

A process claims a delivery with a lease before sending it. If the process dies, another one sends
it after the lease has ended. A subject, such as a hold, has at most one waiting delivery and one
being sent to each receiver. A newer delivery replaces the waiting one, and no older one arrives
after it. Each receiver has its own rows and its own task, so none waits for another.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import httpx
import structlog
from sqlalchemy import (
    BindParameter,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database import outbox
from solward.database.database import Database, clock
from solward.database.records import insert_new
from solward.database.tables import webhook_deliveries, webhook_nonces
from solward.support.durations import DAY_MS
from solward.support.tasks import in_background
from solward.support.webhook_signature import DELIVERY, SIGNATURE, TIMESTAMP, delivery_signature
from solward.telemetry import metrics
from solward.types.errors import StoreError
from solward.types.events import Event

# The maximum number of deliveries that a process sends simultaneously.
_AT_ONCE = 8
# The minimum time between two looks if other processes have claimed the due deliveries.
_LEAST_WAIT_S = 0.1
# Ended rows are kept, so that an operator can see why a receiver got nothing.
KEPT_MS = 7 * DAY_MS
# This is far longer than a decision is valid, so that no nonce is accepted twice even if the clock
# is set back by a day. No hold lives longer.
NONCES_KEPT_MS = 2 * DAY_MS

_WAITING = "waiting"

_log = structlog.get_logger(__name__)

Channel = Literal["approvals", "alerts", "slack", "telegram"]
"""The receiver of a delivery: the webhook for holds or for alerts, or a chat that holds go to."""

_NOW: BindParameter[int] = bindparam("now")
_rows = webhook_deliveries.c
_sent = webhook_deliveries.alias("sent")
# Written like the condition of the partial index, so that both databases use the index.
_IS_WAITING = _rows.state == literal_column("'waiting'")
_FREE = _rows.lease_until_ms <= _NOW
_OF_THE_CHANNEL = _rows.channel == bindparam("b_channel")
_OF_THE_SUBJECT = and_(_sent.c.subject == _rows.subject, _sent.c.channel == _rows.channel)
# At least one try has failed.
_FAILED = or_(_rows.tries > 1, and_(_rows.tries > 0, _rows.lease_until_ms == 0))
_SUPERSEDE = (
    update(webhook_deliveries)
    .where(_rows.subject == bindparam("b_subject"), _OF_THE_CHANNEL, _IS_WAITING)
    .values(state="superseded")
)
_DUE = (
    select(_rows.id, _rows.subject, _rows.body, _rows.created_ms, _rows.tries)
    .where(
        _IS_WAITING,
        _OF_THE_CHANNEL,
        _rows.next_ms <= _NOW,
        # The next clause implies this one, but PostgreSQL evaluates that before it locks the row.
        # It evaluates this one again, for a row that another process claimed meanwhile.
        _FREE,
        # No other delivery of the subject is being sent. A newer delivery supersedes the older
        # one's row, so it waits until the older delivery's lease is committed.
        ~exists().where(_OF_THE_SUBJECT, _sent.c.lease_until_ms > _NOW),
    )
    .order_by(_rows.next_ms)
    .limit(bindparam("at_most"))
    .with_for_update(of=webhook_deliveries, skip_locked=True)
)
_CLAIM = (
    update(webhook_deliveries)
    .where(_rows.id.in_(bindparam("ids", expanding=True)))
    .values(tries=_rows.tries + 1, lease_until_ms=bindparam("b_until"))
)
_END_TRY = (
    update(webhook_deliveries)
    .where(_rows.id == bindparam("b_id"), _rows.tries == bindparam("b_tries"))
    .values(
        lease_until_ms=0,
        next_ms=bindparam("b_next"),
        state=case((_IS_WAITING, bindparam("b_state")), else_=_rows.state),
    )
    .returning(_rows.state)
)
_WHEN = case((_rows.next_ms > _rows.lease_until_ms, _rows.next_ms), else_=_rows.lease_until_ms)
_NEXT = select(func.min(_WHEN)).where(_IS_WAITING, _OF_THE_CHANNEL)
_FORGET_LEASES = (
    update(webhook_deliveries)
    .where(_rows.lease_until_ms > 0, _OF_THE_CHANNEL)
    .values(lease_until_ms=0)
)
_FORGET = delete(webhook_deliveries).where(
    ~_IS_WAITING, _rows.created_ms < bindparam("before"), _FREE
)
_WAITS = (
    select(_rows.channel, func.count(), func.max(case((_FAILED, 1), else_=0)))
    .where(_IS_WAITING)
    .group_by(_rows.channel)
)
_TAKE_NONCE = insert_new(webhook_nonces).execution_options(preserve_rowcount=True)
_FORGET_NONCES = delete(webhook_nonces).where(webhook_nonces.c.created_ms < bindparam("before"))


@dataclass(frozen=True, slots=True)
class DeliveryClaim:
    """A delivery that this process has claimed and sends now.

    Attributes:
        tries: the number of tries with this one. If a process lost its lease, it finds another.
        created_ms: the time of the event.
        claimed_ms: the time of the claim, by the database's clock.
    """

    id: str
    subject: str
    body: str
    created_ms: int
    tries: int
    claimed_ms: int


async def add(
    connection: AsyncConnection, channel: Channel, delivery_id: str, subject: str, body: str
) -> None:
    """Store a delivery in its event's transaction. It replaces a waiting one for the same subject.

    Args:
        subject: the id of the delivery's subject, such as a hold.
    """
    now = await clock(connection)
    await connection.execute(_SUPERSEDE, {"b_subject": subject, "b_channel": channel})
    row = {
        "id": delivery_id,
        "channel": channel,
        "subject": subject,
        "body": body,
        "created_ms": now,
        "next_ms": now,
        "tries": 0,
        "state": _WAITING,
        "lease_until_ms": 0,
    }
    await connection.execute(insert(webhook_deliveries), row)


async def claim(
    connection: AsyncConnection, channel: Channel, at_most: int, lease_ms: int
) -> list[DeliveryClaim]:
    """Claim due deliveries, oldest first; no other process can claim them until the lease ends."""
    now = await clock(connection)
    rows = (
        await connection.execute(_DUE, {"b_channel": channel, "now": now, "at_most": at_most})
    ).all()
    if rows:
        ids = [row.id for row in rows]
        await connection.execute(_CLAIM, {"ids": ids, "b_until": now + lease_ms})
    return [
        DeliveryClaim(row.id, row.subject, row.body, row.created_ms, row.tries + 1, now)
        for row in rows
    ]


async def end_try(
    connection: AsyncConnection,
    claimed: DeliveryClaim,
    state: Literal["waiting", "delivered", "given_up"],
    next_ms: int = 0,
) -> bool:
    """Store the result of a try; a `waiting` delivery is tried again at `next_ms`.

    Returns:
        Whether the delivery has this state now. It has not if it was superseded meanwhile, or if
        another process took it after the lease had ended.
    """
    values = {"b_id": claimed.id, "b_tries": claimed.tries, "b_state": state, "b_next": next_ms}
    return bool((await connection.execute(_END_TRY, values)).scalar() == state)


async def next_due(connection: AsyncConnection, channel: Channel) -> int | None:
    """Return the milliseconds until a delivery is due, at least 0; None if no delivery waits."""
    due = (await connection.execute(_NEXT, {"b_channel": channel})).scalar()
    return None if due is None else max(0, int(due) - await clock(connection))


async def forget_leases(connection: AsyncConnection, channel: Channel) -> None:
    """End all leases; called when the only process on a SQLite database starts."""
    await connection.execute(_FORGET_LEASES, {"b_channel": channel})


async def forget_old(connection: AsyncConnection) -> None:
    """Delete deliveries that ended at least `KEPT_MS` ago."""
    now = await clock(connection)
    await connection.execute(_FORGET, {"now": now, "before": now - KEPT_MS})


async def waiting_counts(connection: AsyncConnection) -> dict[str, tuple[int, bool]]:
    """Return the number of waiting deliveries by channel, and whether any try of them failed."""
    rows = await connection.execute(_WAITS)
    return {channel: (int(count), bool(failed)) for channel, count, failed in rows}


async def take_nonce(connection: AsyncConnection, nonce: str) -> bool:
    """Accept a nonce; return False if it was accepted before."""
    now = await clock(connection)
    await connection.execute(_FORGET_NONCES, {"before": now - NONCES_KEPT_MS})
    row = {"nonce": nonce, "created_ms": now}
    taken = await connection.execute(_TAKE_NONCE, row)
    return taken.rowcount == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The timing of deliveries, in seconds.

    Attributes:
        first_retry_s: wait after the first failure. The wait doubles after each failure, up to
            `longest_retry_s`, and is shortened at random by up to half, to spread the retries.
        give_up_s: time from the event to the last try.
        timeout_s: time limit of a whole request.
        lease_s: time until another process may send a claimed delivery; longer than `timeout_s`.
        poll_s: time between two looks for deliveries of a dead process.
        gather_s: time from an event to the look for its delivery.
    """

    first_retry_s: float = 5.0
    longest_retry_s: float = 900.0
    give_up_s: float = DAY_MS / 1000
    timeout_s: float = 10.0
    lease_s: float = 30.0
    poll_s: float = 30.0
    gather_s: float = 0.0

    def retry_ms(self, tries: int) -> int:
        """Return the wait after `tries` failures, in milliseconds."""
        longest = min(self.longest_retry_s, self.first_retry_s * 2 ** min(tries - 1, 32))
        return int(longest * random.uniform(0.5, 1.0) * 1000)  # noqa: S311 - spreads load


class Failure(NamedTuple):
    """The reason why a receiver did not accept a request, without the receiver's address.

    `wait_s` is the least wait in seconds that the receiver asks for. If `is_final`, the receiver
    would refuse the request again at any time.
    """

    text: str
    wait_s: int = 0
    is_final: bool = False


async def read_status(response: httpx.Response) -> Failure | None:
    """Return the failure that a response's status reports; None if it reports success."""
    return None if response.is_success else Failure(f"HTTP {response.status_code}")


class Sender(ABC):
    """Sends the deliveries for one receiver; several processes on one database share the work.

    Attributes:
        channel: the name of the receiver's channel in its rows.
    """

    channel: Channel
    _read_failure = staticmethod(read_status)

    def __init__(self, database: Database, pace: Pace) -> None:
        self._database = database
        self._pace = pace
        self._woken = asyncio.Event()

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Store deliveries with their events, and send them, while the block runs."""
        database = self._database
        publish, earlier = database.on_committed, database.before_commit

        def on_committed(events: Sequence[Event]) -> None:
            if publish is not None:
                publish(events)
            if any(self._wants_event(each.event, each.data) for each in events):
                self._woken.set()

        async def before_commit(connection: AsyncConnection) -> None:
            if earlier is not None:
                await earlier(connection)
            await self._store_recorded(connection)

        if not database.shared:
            # The home's lock proves that no other process sends.
            async with database.write() as connection:
                await forget_leases(connection, self.channel)
        database.before_commit, database.on_committed = before_commit, on_committed
        try:
            async with in_background(self._deliver_forever(), f"solward-{self.channel}"):
                yield
        finally:
            database.before_commit, database.on_committed = earlier, publish

    async def _store_recorded(self, connection: AsyncConnection) -> None:
        told = [each for each in outbox.recorded_events(connection) if self._wants_event(*each)]
        if told:
            await self._store(connection, told)

    @abstractmethod
    async def _request(self, claimed: DeliveryClaim) -> httpx.Request:
        """Return the request that delivers this."""

    @abstractmethod
    def _wants_event(self, event: str, data: Any) -> bool:
        """Return whether the receiver gets this event."""

    @abstractmethod
    async def _store(self, connection: AsyncConnection, events: Sequence[tuple[str, Any]]) -> None:
        """Store deliveries or notes for these events, in the transaction that records them."""

    @abstractmethod
    def _give_up(self, connection: AsyncConnection, claimed: DeliveryClaim, failure: str) -> None:
        """Raise the alert that a delivery never arrived, in the transaction that gives it up."""

    async def _prepare(self, connection: AsyncConnection) -> None:  # noqa: B027 - nothing to do
        """Store deliveries to send now; called just before due deliveries are claimed."""

    async def _next_due(self, connection: AsyncConnection) -> int | None:
        """Return the milliseconds until a delivery is due, at least 0; None if no delivery
        waits."""
        return await next_due(connection, self.channel)

    async def _deliver_forever(self) -> None:
        async with new_client() as client:
            while True:
                pause = self._pace.poll_s
                try:
                    while await self._deliver_due(client):
                        pass
                    pause = await self._pause_s()
                except StoreError as error:
                    _log.warning("webhook_waits", webhook=self.channel, error=str(error))
                except Exception:
                    # A bug that one delivery triggers must not end all others.
                    _log.exception("webhook_crashed", webhook=self.channel)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                        # Wait a moment, so that one look finds all deliveries of a rush.
                        await asyncio.sleep(self._pace.gather_s)
                self._woken.clear()

    async def _pause_s(self) -> float:
        async with self._database.read() as connection:
            due_ms = await self._next_due(connection)
        if due_ms is None:
            return self._pace.poll_s
        return min(self._pace.poll_s, max(_LEAST_WAIT_S, due_ms / 1000))

    async def _deliver_due(self, client: httpx.AsyncClient) -> bool:
        async with self._database.write() as connection:
            await self._prepare(connection)
            lease_ms = int(self._pace.lease_s * 1000)
            claimed = await claim(connection, self.channel, _AT_ONCE, lease_ms)
            if not claimed:
                await forget_old(connection)
        async with asyncio.TaskGroup() as group:
            for each in claimed:
                group.create_task(self._try_delivery(client, each))
        return bool(claimed)

    async def _try_delivery(self, client: httpx.AsyncClient, claimed: DeliveryClaim) -> None:
        try:
            await self._record_try(claimed, await self._send(client, claimed))
        except StoreError as error:
            # The delivery is sent again when the lease has ended.
            _log.warning(
                "webhook_waits", webhook=self.channel, delivery=claimed.id, error=str(error)
            )
        except Exception:
            # This delivery is sent again later too; the others of the group continue.
            _log.exception("webhook_crashed", webhook=self.channel, delivery=claimed.id)

    async def _send(self, client: httpx.AsyncClient, claimed: DeliveryClaim) -> Failure | None:
        try:
            request = await self._request(claimed)
            return await send(client, request, self._read_failure, self._pace.timeout_s)
        except Exception as error:
            # Recorded as a failure, so that the delivery is given up at last, with an alert.
            _log.exception("webhook_crashed", webhook=self.channel, delivery=claimed.id)
            return Failure(type(error).__name__)

    async def _record_try(self, claimed: DeliveryClaim, failure: Failure | None) -> None:
        async with self._database.write() as connection:
            now = await clock(connection)
            end_ms = claimed.created_ms + int(self._pace.give_up_s * 1000)
            if failure is None:
                outcome = "delivered"
                await end_try(connection, claimed, "delivered")
            elif now < end_ms and not failure.is_final:
                outcome = "failed"
                wait_ms = max(self._pace.retry_ms(claimed.tries), failure.wait_s * 1000)
                next_ms = min(now + wait_ms, end_ms)
                await end_try(connection, claimed, "waiting", next_ms)
            else:
                outcome = "given_up"
                if await end_try(connection, claimed, "given_up"):
                    self._give_up(connection, claimed, failure.text)
        metrics.WEBHOOK_DELIVERIES.labels(self.channel, outcome).inc()
        if failure is not None:
            _log.warning(
                "webhook_failed",
                webhook=self.channel,
                delivery=claimed.id,
                tries=claimed.tries,
                error=failure.text,
            )


async def send(
    client: httpx.AsyncClient,
    request: httpx.Request,
    read_failure: Callable[[httpx.Response], Awaitable[Failure | None]],
    timeout_s: float,
) -> Failure | None:
    """Send a request once; return why the receiver did not accept it, or None if it did.

    Args:
        client: a client from `new_client`.
    """
    try:
        async with asyncio.timeout(timeout_s):
            response = await client.send(request, stream=True)
            async with contextlib.aclosing(response):
                return await read_failure(response)
    except TimeoutError:
        return Failure("no answer in time")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        # The error's text may quote the address, which is a secret.
        return Failure(type(error).__name__)


def signed_request(url: str, secret: str, claimed: DeliveryClaim) -> httpx.Request:
    """Return a webhook's signed request that delivers this."""
    body, timestamp = claimed.body.encode(), str(claimed.claimed_ms // 1000)
    headers = {
        "Content-Type": "application/json",
        DELIVERY: claimed.id,
        TIMESTAMP: timestamp,
        SIGNATURE: delivery_signature(secret, timestamp, claimed.id, body),
    }
    return httpx.Request("POST", url, content=body, headers=headers)


def new_client() -> httpx.AsyncClient:
    """Return a client for `send`, which closes its connection after each request."""
    return httpx.AsyncClient(
        # It takes no proxies and no credentials from the environment, and closes each connection,
        # because an answer may be left unread.
        trust_env=False,
        follow_redirects=False,
        # `send` has one timeout for the whole request.
        timeout=None,  # noqa: S113
        limits=httpx.Limits(max_keepalive_connections=0),
    )
