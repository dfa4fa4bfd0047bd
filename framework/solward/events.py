"""What happens inside a process, told to whoever listens there; nothing is kept.

Publishing never waits: a listener that falls behind loses the oldest events and is told how many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from solward.clock import now_ms

QUEUE_SIZE = 256


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `seq` counts from 1 in this process, `ms` is Unix milliseconds."""

    seq: int
    ms: int
    event: str
    data: Any


class Subscription:
    """Events since it began, oldest first. Iterating ends when the bus's block does.

    Attributes:
        lost: how many events were dropped because nobody took them in time.
    """

    def __init__(self, size: int) -> None:
        self._queue: deque[Event] = deque(maxlen=size)
        self._arrived = asyncio.Event()
        self._ended = False
        self.lost = 0

    def put(self, event: Event) -> None:
        """Queue an event, in place of the oldest when the queue is full."""
        self.lost += len(self._queue) == self._queue.maxlen
        self._queue.append(event)
        self._arrived.set()

    def end(self) -> None:
        """Let iteration end once the queue is empty."""
        self._ended = True
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._queue:
                yield self._queue.popleft()
            if self._ended:
                return
            self._arrived.clear()
            await self._arrived.wait()


class EventBus:
    """Publish and subscribe, on one event loop."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._seq = 0

    def publish(self, event: str, data: Any) -> None:
        """Tell every subscriber; `data` is JSON-able and must not be changed afterwards."""
        self._seq += 1
        item = Event(self._seq, now_ms(), event, data)
        for subscription in self._subscriptions:
            subscription.put(item)

    @contextmanager
    def subscribe(self, size: int = QUEUE_SIZE) -> Iterator[Subscription]:
        """Listen inside the block, holding up to `size` events that were not taken yet."""
        subscription = Subscription(size)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            subscription.end()

    def close(self) -> None:
        """End every subscription, so that streams end and a server can stop."""
        for subscription in list(self._subscriptions):
            subscription.end()
