"""Credentials that this process has not seen work are looked up by fair turns, so that a flood of
guesses leaves the database's connections to the rest."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from solward.fair_turns import FairTurns

AT_ONCE: Final = 2
"""Look-ups of unknown credentials at the same time, of a pool of 10 connections."""
MOST_KNOWN: Final = 10_000
CROWDED: Final = "Too many requests with unknown credentials; retry in 1 s"


class CredentialLookups(FairTurns):
    """Turns of look-ups, and what needs none."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)
        self._known: OrderedDict[str, None] = OrderedDict()

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
