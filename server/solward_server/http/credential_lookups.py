"""Credentials that this process has not seen work are looked up by fair turns, so that a flood of
guesses leaves the database's connections to the rest."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from solward.support.fair_turns import FairTurns

AT_ONCE: Final = 2
"""Look-ups of unknown credentials at the same time, of a pool of 10 connections."""
MOST_KNOWN: Final = 10_000
CROWDED: Final = "Too many requests with unknown credentials; retry in 1 s"


T = TypeVar("T")


class CredentialLookups(FairTurns):
    """Turns of look-ups, and what needs none."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)
        self._known: OrderedDict[str, None] = OrderedDict()
        # Whether each of those being looked up works; None where that could not be seen.
        self._first: dict[str, asyncio.Future[bool | None]] = {}

    async def in_turn(
        self, hash_: str, source: str, find: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """What `find` has of a credential that is not known yet; raises `Crowded`.

        Requests that come with it meanwhile wait for the same turn: the first burst of a new key is
        no flood.
        """
        while (first := self._first.get(hash_)) is not None:
            works = await asyncio.shield(first)
            if works is not None:
                return await find() if works else None
        first = self._first[hash_] = asyncio.get_running_loop().create_future()
        works = None
        try:
            async with self.turn(source):
                found = await find()
            works = found is not None
        finally:
            del self._first[hash_]
            first.set_result(works)
        if works:
            self.remember(hash_)
        return found

    def is_known(self, hash_: str) -> bool:
        """Whether this credential worked here before; whether it works now is looked up anyway."""
        return hash_ in self._known

    def remember(self, hash_: str) -> None:
        """Let a credential that works pass without a turn from now on."""
        self._known[hash_] = None
        self._known.move_to_end(hash_)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def forget(self, hash_: str) -> None:
        """Let a credential that works no more wait for its turn as others do."""
        self._known.pop(hash_, None)
