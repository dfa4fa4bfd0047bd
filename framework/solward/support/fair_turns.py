"""Fair turns for guesses of a secret: a flood of guesses costs the service little, and one source
cannot use up the turns of another."""

from __future__ import annotations

import asyncio
import ipaddress
import random
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

MOST_WAITING: Final = 256
MOST_OF_SOURCE: Final = 16


class Crowded(Exception):
    """Too many callers wait for their turn; a caller may try again after a second."""


class FairTurns:
    """Limits concurrent work: sources of requests get turns in rotation.

    The waiting callers are bounded, for a source and in total. If there is no room, a random one of
    the source with the most waiting callers is dropped, so that nobody can hold the queue by
    filling it first.

    Args:
        at_once: the maximum number of turns at the same time.
        of_source: the maximum number of turns of one source at the same time.
    """

    def __init__(self, at_once: int, of_source: int | None = None) -> None:
        self._free = at_once
        self._of_source = at_once if of_source is None else of_source
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, list[asyncio.Future[None]]] = OrderedDict()
        self._count = 0

    @property
    def waiting(self) -> int:
        """The number of callers that wait for their turn."""
        return self._count

    @asynccontextmanager
    async def turn(self, source: str) -> AsyncIterator[None]:
        """Wait for a turn of this source; raises `Crowded`."""
        if self._may_begin_turn(source):
            self._begin_turn(source)
        else:
            await self._wait_for_turn(source)
        try:
            yield
        finally:
            self._end_turn(source)

    def _may_begin_turn(self, source: str) -> bool:
        return self._free > 0 and self._running[source] < self._of_source

    def _begin_turn(self, source: str) -> None:
        self._free -= 1
        self._running[source] += 1

    def _end_turn(self, source: str) -> None:
        self._free += 1
        self._running[source] -= 1
        if not self._running[source]:
            del self._running[source]
        self._begin_next()

    async def _wait_for_turn(self, source: str) -> None:
        if len(self._waiting.get(source, ())) >= MOST_OF_SOURCE:
            self._drop_waiter(source)
        elif self._count >= MOST_WAITING:
            self._drop_waiter(max(self._waiting, key=lambda each: len(self._waiting[each])))
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(source, []).append(turn)
        self._count += 1
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The turn came just as the waiting caller was cancelled, so it is given back.
                self._end_turn(source)
            self._remove_waiter(source, turn)
            raise

    def _drop_waiter(self, source: str) -> None:
        turn = random.choice(self._waiting[source])  # noqa: S311 - nothing to guess
        self._remove_waiter(source, turn)
        turn.set_exception(Crowded("Too many requests; try again in a second"))

    def _remove_waiter(self, source: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(source, [])
        if turn in waiting:
            waiting.remove(turn)
            self._count -= 1
        if not waiting:
            self._waiting.pop(source, None)

    def _begin_next(self) -> None:
        source = next((each for each in self._waiting if self._may_begin_turn(each)), None)
        if source is None:
            return
        # A random one, because the first may have come only to fill the queue.
        turn = random.choice(self._waiting[source])  # noqa: S311 - nothing to guess
        self._waiting.move_to_end(source)
        self._remove_waiter(source, turn)
        self._begin_turn(source)
        turn.set_result(None)


def source_of(address: str | None) -> str:
    """Return the source of an address: itself, or its IPv6 /64, which belongs to one customer."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
