"""Looks up unknown credentials in fair turns, so that a flood of guesses does not take all of the
database's connections. A credential is known once it has worked in this process."""

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
    """Gives turns to look-ups of unknown credentials, and remembers the known ones."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)
        self._known: OrderedDict[str, None] = OrderedDict()
        # Running look-ups: whether the credential works; None if the look-up failed.
        self._first: dict[str, asyncio.Future[bool | None]] = {}

    async def in_turn(
        self, hash_: str, source: str, find: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """Returns the result of `find` for an unknown credential; raises `Crowded`.

        Concurrent requests with the same credential share one turn, so the first burst of a new
        key does not count as a flood.
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
        """Let a credential that no longer works wait for a turn again."""
        self._known.pop(hash_, None)
