"""Fair turns for credentials that this process has not seen work: a flood of guesses takes few of
the database's connections, and no source takes the turns of another."""

from __future__ import annotations

import asyncio
import ipaddress
import random
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

AT_ONCE: Final = 2
"""Look-ups of strangers at the same time, of a pool of 10 connections."""
MOST_WAITING: Final = 256
MOST_OF_SOURCE: Final = 16
MOST_KNOWN: Final = 10_000


class Crowded(Exception):
    """Too many strangers wait for their turn; the caller may ask again after a second."""

    def __init__(self) -> None:
        super().__init__("Too many requests with unknown credentials; retry in 1 s")


class Strangers:
    """Turns by source, one of each source after another.

    What waits is bounded, for a source and over all: where there is no room, a request of the
    source with the most of them goes, whichever that is, so that nobody holds a queue by having
    filled it first.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: OrderedDict[str, list[asyncio.Future[None]]] = OrderedDict()
        self._count = 0
        self._known: OrderedDict[str, None] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return self._count

    def is_known(self, hash_: str) -> bool:
        """Whether this credential worked here before; whether it works now is looked up anyway."""
        return hash_ in self._known

    def remember(self, hash_: str) -> None:
        """Let a credential that works pass without a turn from now on."""
        self._known[hash_] = None
        self._known.move_to_end(hash_)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    @asynccontextmanager
    async def turn(self, source: str) -> AsyncIterator[None]:
        """Wait for a turn of this source; raises `Crowded`."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(source)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, source: str) -> None:
        mine = self._waiting.setdefault(source, [])
        if len(mine) >= MOST_OF_SOURCE:
            self._drop(source)
        elif self._count >= MOST_WAITING:
            self._drop(max(self._waiting, key=lambda each: len(self._waiting[each])))
            # It may have been this source's own list that went.
            mine = self._waiting.setdefault(source, [])
        turn = asyncio.get_running_loop().create_future()
        mine.append(turn)
        self._count += 1
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # It came while the request ended.
                self._next()
            self._leave(source, turn)
            raise

    def _drop(self, source: str) -> None:
        turn = random.choice(self._waiting[source])  # noqa: S311 - nothing to guess
        self._leave(source, turn)
        turn.set_exception(Crowded())

    def _leave(self, source: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(source, [])
        if turn in waiting:
            waiting.remove(turn)
            self._count -= 1
        if not waiting:
            self._waiting.pop(source, None)

    def _next(self) -> None:
        if not self._waiting:
            self._free += 1
            return
        source, waiting = next(iter(self._waiting.items()))
        # Whichever of them: who came first may be who came to fill it.
        turn = random.choice(waiting)  # noqa: S311 - nothing to guess
        self._waiting.move_to_end(source)
        self._leave(source, turn)
        turn.set_result(None)


def source_of(address: str | None) -> str:
    """Who is behind an address, for a fair share: an IPv6 address's /64, which one customer has."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
