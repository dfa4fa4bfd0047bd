"""The approvals' webhook: a receiver is told of every hold, and what it decides comes back signed.

What is told is a row of the transaction that it tells of, so that a process killed right after it
loses nothing, and is sent until the receiver takes it or a day is over. A receiver hears each thing
at least once, the newest of a hold last. Of its answer the status counts and nothing is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward import jsontext
from solward.audit import outbox
from solward.audit.acts import act_as, record_act
from solward.durations import DAY_MS
from solward.errors import DecisionRefused, InvalidRequest, StoreError
from solward.events import Event, EventKind
from solward.hold import Hold
from solward.operations.approvals import WEBHOOK
from solward.settings import Settings
from solward.store import webhook as store
from solward.store.webhook import Claimed
from solward.telemetry import metrics
from solward.vault.store import alerts
from solward.vault.store.database import Database, clock
from solward.webhook_signature import (
    DELIVERY,
    SIGNATURE,
    TIMESTAMP,
    WINDOW_S,
    decision_signature,
    delivery_signature,
    is_hold_id,
    is_nonce,
    is_signature,
    seconds_of,
)

REFUSALS: Final = {
    "signature": "The decision is not signed for this hold with the webhook's secret",
    "time": f"The decision was signed more than {WINDOW_S} s from now, by the service's clock",
    "repeated": "This decision came before: sign another one",
}
"""What a refused decision is answered with."""

# Events whose names begin so are told.
_KIND = "hold"
# What each process sends at the same time.
_AT_ONCE = 8
# Between two looks for something due where none was free.
_LEAST_WAIT_S = 0.1
# Refused decisions that a process writes to the audit log in a minute; the others are counted in
# the next one that is written, so that nobody without the secret fills the database.
_REFUSALS_A_MINUTE = 10

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
    """

    first_retry_s: float = 5.0
    longest_retry_s: float = 900.0
    give_up_s: float = DAY_MS / 1000
    timeout_s: float = 10.0
    lease_s: float = 30.0
    poll_s: float = 30.0

    def retry_ms(self, tries: int) -> int:
        """The wait after as many failures."""
        longest = min(self.longest_retry_s, self.first_retry_s * 2 ** min(tries - 1, 32))
        return int(longest * random.uniform(0.5, 1.0) * 1000)  # noqa: S311 - spreads load


@dataclass(frozen=True, slots=True)
class SentDecision:
    """A decision as a request has it: the hold of its path, three headers, and its body."""

    hold_id: str
    timestamp: str
    nonce: str
    signature: str
    body: bytes


class Decider(Protocol):
    """Who carries out decisions: the service."""

    async def approve_hold(self, hold_id: str, approver: str, note: str | None) -> Hold:
        """See `solward.operations.approvals.Approvals.approve`."""

    async def deny_hold(self, hold_id: str, approver: str, note: str | None) -> Hold:
        """See `solward.operations.approvals.Approvals.deny`."""


class Webhook:
    """The webhook of one process."""

    def __init__(
        self, database: Database, url: str, secret: str, *, dashboard: str, api: str, pace: Pace
    ) -> None:
        self._database = database
        self._url = url
        self._secret = secret
        self._dashboard = dashboard
        self._api = api
        self._pace = pace
        self._woken = asyncio.Event()
        self._refusals: deque[float] = deque()
        self._unwritten = 0

    @classmethod
    def of(cls, database: Database, settings: Settings, pace: Pace | None = None) -> Webhook | None:
        """The webhook that the settings name; None where they name none.

        Raises:
            ConfigError: they name half of it, or not where the service is called.
        """
        configured = settings.approval_webhook
        if configured is None:
            return None
        url, secret = configured
        return cls(
            database,
            url,
            secret,
            dashboard=settings.dashboard_address,
            api=settings.client_url,
            pace=pace or Pace(),
        )

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Inside the block, events of holds are stored for delivery, and what waits is sent."""
        database = self._database
        publish = database.on_committed

        def on_committed(events: Sequence[Event]) -> None:
            if publish is not None:
                publish(events)
            if any(event.event.partition(":")[0] == _KIND for event in events):
                self._woken.set()

        if not database.shared:
            # The home's lock proves that no other process sends.
            async with database.write() as connection:
                await store.forget_leases(connection)
        database.before_commit, database.on_committed = self._enqueue, on_committed
        task = asyncio.create_task(self._deliver(), name="solward-webhook")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            database.before_commit, database.on_committed = None, publish

    async def decide(self, service: Decider, sent: SentDecision) -> Hold:
        """Decide a hold as a receiver of the webhook says; the hold as it is then.

        Raises:
            DecisionRefused: as `check`.
            InvalidRequest: what was signed is no decision; names the field.
            SolwardError: as `service` refuses it.
        """
        await self.check(sent)
        act_as(WEBHOOK)
        decision, note = _read(sent.body)
        if decision == "approve":
            return await service.approve_hold(sent.hold_id, WEBHOOK, note)
        return await service.deny_hold(sent.hold_id, WEBHOOK, note)

    async def check(self, sent: SentDecision) -> None:
        """Accept a decision, once.

        Raises:
            DecisionRefused: the secret did not sign it for this hold, or not within `WINDOW_S` of
                now by the database's clock, or it came before. The audit log has that, without the
                body.
        """
        refused = await self._refusal(sent)
        if refused is None:
            metrics.WEBHOOK_DECISIONS.labels("accepted").inc()
            return
        metrics.WEBHOOK_DECISIONS.labels("refused").inc()
        await self._tell_refusal(sent.hold_id, refused)
        raise DecisionRefused(REFUSALS[refused])

    async def _refusal(self, sent: SentDecision) -> str | None:
        seconds = seconds_of(sent.timestamp)
        # Without the secret nobody learns more than this, and nothing is asked of the database.
        if seconds is None or not is_nonce(sent.nonce) or not is_hold_id(sent.hold_id):
            return "signature"
        expected = decision_signature(
            self._secret, sent.hold_id, sent.timestamp, sent.nonce, sent.body
        )
        if not is_signature(sent.signature, expected):
            return "signature"
        async with self._database.write() as connection:
            if abs(await clock(connection) - seconds * 1000) > WINDOW_S * 1000:
                return "time"
            return None if await store.take_nonce(connection, sent.nonce) else "repeated"

    async def _tell_refusal(self, hold_id: str, reason: str) -> None:
        now = time.monotonic()
        while self._refusals and self._refusals[0] <= now - 60:
            self._refusals.popleft()
        if len(self._refusals) >= _REFUSALS_A_MINUTE:
            self._unwritten += 1
            return
        self._refusals.append(now)
        unwritten, self._unwritten = self._unwritten, 0
        # Who asks is not known, so the path's text is not taken for more than it is.
        subject = {
            "holdId": hold_id if is_hold_id(hold_id) else None,
            "reason": reason,
            "unwritten": unwritten,
        }
        async with self._database.write() as connection:
            record_act(connection, EventKind.WEBHOOK_REFUSED, subject)

    async def _enqueue(self, connection: AsyncConnection) -> None:
        for event, data in outbox.recorded_of(connection, _KIND):
            hold_id = str(data["id"])
            # In an event the principal is who did it, in a hold who asks.
            hold = {name: value for name, value in data.items() if name != "asked"}
            body = {
                "event": event,
                "by": data["principal"],
                "hold": hold | {"principal": data["asked"]},
                "dashboardUrl": f"{self._dashboard}/holds/{hold_id}",
                "decisionUrl": f"{self._api}/api/v1/holds/{hold_id}/webhook",
            }
            text = jsontext.dumps(body)
            await store.add(connection, str(uuid.uuid4()), hold_id, text)

    async def _deliver(self) -> None:
        async with httpx.AsyncClient(
            # No proxies and no credentials of the environment; the connection is closed each time,
            # because the answer is not read.
            trust_env=False,
            follow_redirects=False,
            # One timeout for all of it, in `_send`.
            timeout=None,  # noqa: S113
            limits=httpx.Limits(max_keepalive_connections=0),
        ) as client:
            while True:
                pause = self._pace.poll_s
                try:
                    while await self._deliver_due(client):
                        pass
                    pause = await self._pause()
                except StoreError as error:
                    _log.warning("webhook_waits", error=str(error))
                except Exception:
                    # What is told must not end with one delivery that has a bug.
                    _log.exception("webhook_crashed")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                self._woken.clear()

    async def _pause(self) -> float:
        async with self._database.read() as connection:
            due_ms = await store.next_due(connection)
        if due_ms is None:
            return self._pace.poll_s
        return min(self._pace.poll_s, max(_LEAST_WAIT_S, due_ms / 1000))

    async def _deliver_due(self, client: httpx.AsyncClient) -> bool:
        """Send what is due, a few at a time; whether there was something."""
        async with self._database.write() as connection:
            claimed = await store.claim(connection, _AT_ONCE, int(self._pace.lease_s * 1000))
            if not claimed:
                await store.forget_old(connection)
        async with asyncio.TaskGroup() as group:
            for each in claimed:
                group.create_task(self._try(client, each))
        return bool(claimed)

    async def _try(self, client: httpx.AsyncClient, claimed: Claimed) -> None:
        failure = await self._send(client, claimed)
        try:
            await self._end_try(claimed, failure)
        except StoreError as error:
            # It is sent again when the lease has run out.
            _log.warning("webhook_waits", delivery=claimed.id, error=str(error))

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
                    alerts.webhook_given_up(connection, _hold_of(claimed), claimed.tries, failure)
        metrics.WEBHOOK_DELIVERIES.labels(outcome).inc()
        if failure is not None:
            _log.warning("webhook_failed", delivery=claimed.id, tries=claimed.tries, error=failure)

    async def _send(self, client: httpx.AsyncClient, claimed: Claimed) -> str | None:
        """Send a delivery once; what failed, without the address, or None."""
        body = claimed.body.encode()
        timestamp = str(claimed.claimed_ms // 1000)
        headers = {
            "Content-Type": "application/json",
            DELIVERY: claimed.id,
            TIMESTAMP: timestamp,
            SIGNATURE: delivery_signature(self._secret, timestamp, claimed.id, body),
        }
        try:
            async with (
                asyncio.timeout(self._pace.timeout_s),
                client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                return None if response.is_success else f"HTTP {response.status_code}"
        except TimeoutError:
            return "no answer in time"
        except httpx.HTTPError as error:
            # Its text may quote the address, which is a secret.
            return type(error).__name__


def _read(body: bytes) -> tuple[str, str | None]:
    try:
        fields = jsontext.loads(body, unique_keys=True)
    except (ValueError, RecursionError):
        raise InvalidRequest("The request body must be valid JSON that says a field once") from None
    unfit = jsontext.unfit(fields)
    if unfit is not None:
        raise InvalidRequest(unfit)
    decision = fields.get("decision") if isinstance(fields, dict) else None
    if decision not in ("approve", "deny"):
        raise InvalidRequest("decision must be approve or deny")
    note = fields.get("note")
    if note is not None and not isinstance(note, str):
        raise InvalidRequest("note must be a string")
    return decision, note


def _hold_of(claimed: Claimed) -> Mapping[str, Any]:
    hold: Mapping[str, Any] = jsontext.loads(claimed.body)["hold"]
    return hold
