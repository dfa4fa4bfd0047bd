"""The events of this process, for its subscribers; the audit log stores the lasting kinds.

Publishing never waits: a slow subscriber loses the oldest events, and counts the lost ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from solward.support.clock import now_ms

QUEUE_SIZE = 256


class EventKind(StrEnum):
    """Every kind of event in the audit log; docs/reference/events.md has their fields."""

    WALLET_CREATED = "wallet:created"
    """A wallet was created or imported."""
    WALLET_CHANGED = "wallet:changed"
    """A wallet's tags were changed."""
    WALLET_EXPORTED = "wallet:exported"
    """`solward wallet export` wrote a wallet's key to a file."""
    TRANSACTION_PENDING = "transaction:pending"
    """A transaction passed the rules, and its amount is reserved."""
    TRANSACTION_CONFIRMED = "transaction:confirmed"
    """A transaction is on the ledger."""
    TRANSACTION_FAILED = "transaction:failed"
    """A transaction could not be sent, failed on the ledger or never reached it."""
    TRANSACTION_BLOCKED = "transaction:blocked"
    """A rule refused a transaction."""
    PAYMENT_HANDED_OVER = "payment:handed_over"
    """A payment is signed and stored, and may be sent to the seller."""
    PAYMENT_ANSWERED = "payment:answered"
    """The seller answered the paid request."""
    AGENT_CREATED = "agent:created"
    """An agent was created."""
    AGENT_CHANGED = "agent:changed"
    """Fields of an agent were changed, such as its limits."""
    AGENT_DELETED = "agent:deleted"
    """An agent was deleted, with its decisions and memory."""
    AGENT_STARTED = "agent:started"
    """An agent was started, from any other status."""
    AGENT_STOPPED = "agent:stopped"
    """An agent was stopped, maybe to be deleted."""
    AGENT_PAUSED = "agent:paused"
    """An agent was paused."""
    AGENT_ERROR = "agent:error"
    """Three cycles of an agent in a row failed. It keeps trying."""
    AGENT_DECISION = "agent:decision"
    """An agent's cycle ended."""
    SCHEDULE_CREATED = "schedule:created"
    """A schedule was created."""
    SCHEDULE_CHANGED = "schedule:changed"
    """Fields of a schedule were changed."""
    SCHEDULE_DELETED = "schedule:deleted"
    """A schedule was deleted, with its runs."""
    SCHEDULE_PAUSED = "schedule:paused"
    """A schedule was paused; automatically if `principal` is `service`."""
    SCHEDULE_RESUMED = "schedule:resumed"
    """A schedule was resumed."""
    SCHEDULE_RUN_ASKED = "schedule:run_asked"
    """A run was requested, and is due at once, at `dueAt`."""
    SCHEDULE_RUN = "schedule:run"
    """A due time of a schedule was run or skipped; `text` has at most 500 characters."""
    KEY_CREATED = "key:created"
    """An API key was created."""
    KEY_CHANGED = "key:changed"
    """An API key was changed: it has a new secret."""
    KEY_REVOKED = "key:revoked"
    """An API key was revoked."""
    ADMIN_CREATED = "admin:created"
    """An admin credential was created."""
    ADMIN_REVOKED = "admin:revoked"
    """An admin credential was revoked."""
    POLICY_CHANGED = "policy:changed"
    """Grants of the principal `who`, or the address book (`book`), were changed."""
    CONTACT_CHANGED = "contact:changed"
    """A recipient's name was set, changed or removed."""
    HOLD_CREATED = "hold:created"
    """A transaction waits for a person; nothing of it is reserved."""
    HOLD_APPROVED = "hold:approved"
    """A person approved a hold."""
    HOLD_EXECUTED = "hold:executed"
    """A hold's transaction used its approval, and its amount is reserved."""
    HOLD_REFUSED = "hold:refused"
    """A hold was approved, and its transaction was refused when it was checked again."""
    HOLD_DENIED = "hold:denied"
    """A person refused a hold; `transactionId` is its `blocked` record."""
    HOLD_EXPIRED = "hold:expired"
    """A hold expired; `transactionId` is its `blocked` record."""
    SWITCH_FROZEN = "switch:frozen"
    """New transactions of a wallet were stopped, or of all if `walletId` is null."""
    SWITCH_THAWED = "switch:thawed"
    """New transactions of a wallet, or of all, were allowed again."""
    PLUGIN_CHANGED = "plugin:changed"
    """A distribution in its own folder was installed, upgraded, enabled, disabled or removed."""
    PLUGIN_SETTING = "plugin:setting"
    """A setting of a plugin's skill was set or unset. Its value is omitted."""
    PLUGIN_ENTRY = "plugin:entry"
    """The operator deleted an entry that a plugin kept for a wallet. Its value is omitted."""
    PLUGIN_PURGED = "plugin:purged"
    """All entries and settings of a distribution were deleted."""
    TOKENS_CHANGED = "tokens:changed"
    """The operator's list of tokens was replaced."""
    KEYSTORE_ROTATED = "keystore:rotated"
    """Wallets' keys are sealed under a new secret."""
    AUDIT_PRUNED = "audit:pruned"
    """Retention deleted the entries older than `before`."""
    WEBHOOK_REFUSED = "webhook:refused"
    """A decision for the approvals' webhook was unsigned, too old, or a repetition."""
    ALERT_RAISED = "alert:raised"
    """An alert for the operator was raised."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        seq: its number in the audit log, from 1; None if it is not stored there.
        ms: its time, in Unix milliseconds.
        event: an `EventKind`, or a kind that is published only, such as `skill:executed`.
        trace: its origin, a request's id or `agent:<id>:<cycle>`; for logs only.
    """

    seq: int | None
    ms: int
    event: str
    data: Any
    trace: str | None = None


class Subscription:
    """Iterates over events since its start, oldest first, until the block of `subscribe` ends.

    Attributes:
        lost: number of events dropped because they were not read in time.
        ended: whether no more events will be queued.
    """

    def __init__(self, size: int) -> None:
        self._queue: deque[Event] = deque(maxlen=size)
        self._arrived = asyncio.Event()
        self._woken = False
        self.ended = False
        self.lost = 0

    def put(self, event: Event) -> None:
        """Queue an event; drop the oldest if the queue is full."""
        self.lost += len(self._queue) == self._queue.maxlen
        self._queue.append(event)
        self._arrived.set()

    def wake(self) -> None:
        """Let `news` return without an event."""
        self._woken = True
        self._arrived.set()

    def end(self) -> None:
        """Let iteration end once the queue is empty."""
        self.ended = True
        self._arrived.set()

    async def next(self) -> Event | None:
        """Wait for the oldest unread event and return it; None at the end."""
        while not self._queue:
            if self.ended:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._queue.popleft()

    async def news(self) -> None:
        """Wait for an event, a `wake` or the end; drops unread events. For subscribers that read
        the audit log itself."""
        while not (self._queue or self._woken or self.ended):
            self._arrived.clear()
            await self._arrived.wait()
        self._queue.clear()
        self._woken = False

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self.next()) is not None:
            yield event


class EventBus:
    """A publisher of events to subscribers on the same event loop."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._closed = False

    def publish(self, event: str, data: Any) -> None:
        """Publish an event that is not stored; `data` must not be changed afterwards."""
        self.publish_stored([Event(None, now_ms(), event, data)])

    def publish_stored(self, events: Sequence[Event]) -> None:
        """Publish events that the audit log has stored, in its order."""
        for subscription in self._subscriptions:
            for event in events:
                subscription.put(event)

    def wake(self) -> None:
        """Wake every subscriber: another process may have added to the audit log."""
        for subscription in self._subscriptions:
            subscription.wake()

    @contextmanager
    def subscribe(self, size: int = QUEUE_SIZE) -> Iterator[Subscription]:
        """Subscribe for the length of the block, with a queue of `size` unread events."""
        subscription = Subscription(size)
        if self._closed:
            subscription.end()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            subscription.end()

    def close(self) -> None:
        """End every subscription, now and later, so that streams end and a server can stop."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.end()
