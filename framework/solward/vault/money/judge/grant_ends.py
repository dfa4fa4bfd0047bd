"""Grants near their end: a window of an amount nearly used up, or a date that is close."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.support.clock import iso
from solward.support.durations import DAY_MS
from solward.types.guardrail import COSTS
from solward.types.money import SOL_DECIMALS
from solward.vault.grants.decide import Need
from solward.vault.grants.model import COSTS_WINDOW_MS, Grant, Window
from solward.vault.grants.sentences import left_sentence
from solward.vault.grants.spelling import Names
from solward.vault.grants.stored_form import from_stored
from solward.vault.store import grants as store
from solward.vault.store import window_sums

NEAR_END_PERCENT: Final = 90
"""From this share of a window on, a grant is near its end."""
ENDS_WITHIN_MS: Final = DAY_MS
"""As long before its date, a grant is near its end."""


@dataclass(frozen=True, slots=True)
class NearEnd:
    """One way in which a grant is near its end; `key` tells it from every other."""

    key: str
    detail: str


def near_ends(
    who: str,
    number: int,
    grant: Grant,
    counted: Mapping[Need, int],
    now_ms: int,
    names: Names,
) -> Iterator[NearEnd]:
    """How a grant that lets something through is near its end then; pure.

    Args:
        number: of the grant in its principal's list, from 1.
        counted: what windows hold that just grew, this transaction included.
    """
    called = f"Grant {number} of {who}"
    for need, decimals, window in _windows(grant):
        used = counted.get(need, 0)
        if is_near(used, window.most):
            left = left_sentence(need[1], decimals, window, used, names)
            yield NearEnd(f"{grant.scope}#{need[1]}#{window.length_ms}", f"{called}: {left}")
    if is_ending(grant, now_ms):
        assert grant.until_ms is not None
        yield NearEnd(f"{grant.scope}#until", f"{called} ends at {iso(grant.until_ms)}")


def is_near(used: int, most: int) -> bool:
    """Whether a window is nearly used up; one that allows nothing never is."""
    return most > 0 and used * 100 >= most * NEAR_END_PERCENT


def is_ending(grant: Grant, now_ms: int) -> bool:
    """Whether a grant that has not ended does within `ENDS_WITHIN_MS`."""
    return grant.until_ms is not None and now_ms < grant.until_ms <= now_ms + ENDS_WITHIN_MS


def _windows(grant: Grant) -> Iterator[tuple[Need, int, Window]]:
    """Amounts and costs; a rate is full whenever somebody is fast, and has room soon."""
    for limit in grant.assets.values():
        for window in limit.windows:
            yield (grant.scope, limit.counted_as, window.length_ms), limit.decimals, window
    costs = Window(COSTS_WINDOW_MS, grant.costs_lamports)
    yield (grant.scope, COSTS, COSTS_WINDOW_MS), SOL_DECIMALS, costs


class GrantEnds:
    """Counts stored grants that are near their end; they are parsed once a version."""

    def __init__(self) -> None:
        self._version = -1
        self._grants: tuple[Grant, ...] = ()

    async def count(self, database: Database, connection: AsyncConnection) -> tuple[int, int]:
        """How many grants have a window nearly used up, and how many end soon."""
        version = await store.version(connection)
        if version != self._version:
            sets = await store.all_sets(connection)
            self._grants = tuple(from_stored(each) for found in sets.values() for each in found)
            self._version = version
        now = await database.moment(connection)
        clock = max(now.database_ms, now.window_ms)
        in_force = [g for g in self._grants if g.until_ms is None or clock < g.until_ms]
        ending = sum(is_ending(each, clock) for each in in_force)
        return await self._used_up(connection, in_force, now.window_ms), ending

    @staticmethod
    async def _used_up(connection: AsyncConnection, grants: Iterable[Grant], now_ms: int) -> int:
        moved = await window_sums.grants_that_count(connection)
        windows = {
            need: window
            for grant in grants
            if grant.scope in moved
            for need, _, window in _windows(grant)
        }
        counted = await window_sums.counted(connection, windows, now_ms)
        return len(
            {n[0] for n, window in windows.items() if is_near(counted[n].units, window.most)}
        )
