"""Grants as tests write them, and price sources that say what a test wants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from msgspec import structs

from solward.support.clock import now_ms
from solward.support.durations import DAY_MS
from solward.types.guardrail import Operation
from solward.vault.grants.dollars import Price
from solward.vault.grants.model import AssetLimit, Grant, Window, grant_id

# Grants as tests write them: in smallest units.

ALL = frozenset(Operation) - {Operation.BURN}


def limit(
    asset: str,
    most: int | Mapping[int, int],
    *,
    per_tx: int | None = None,
    hold: int | None = None,
    decimals: int | None = None,
) -> AssetLimit:
    """At most `most` units in 24 hours, or length of a window in ms -> units."""
    lengths = {DAY_MS: most} if isinstance(most, int) else most
    windows = tuple(Window(length, units) for length, units in sorted(lengths.items()))
    known = decimals if decimals is not None else 9 if asset == "SOL" else 6
    return AssetLimit(asset, known, windows, per_tx, hold)


def grant(
    who: str,
    may: Iterable[Operation] = ALL,
    *,
    costs: int = 50_000_000,
    **more: Any,
) -> Grant:
    """A grant with its id; what is an `AssetLimit` among `more` is of `assets`, by its name."""
    assets = {name: each for name, each in more.items() if isinstance(each, AssetLimit)}
    fields = {name: each for name, each in more.items() if name not in assets}
    made = Grant("", who, frozenset(may), assets=assets, costs_lamports=costs, **fields)
    return structs.replace(made, id=grant_id(made))


# Price sources that say what a test wants, and a clock that it sets.

NOW_MS = 1_800_000_000_000


@dataclass(slots=True)
class Clock:
    """A process's clock."""

    ms: int = NOW_MS

    def __call__(self) -> int:
        return self.ms


@dataclass(slots=True)
class SaidPrices:
    """Says `usd`, asset -> (dollars of a whole token, decimals), as taken `age_ms` ago.

    What is in `answers` is said in place of it, whatever it is; `before` runs first, and may wait
    or raise.
    """

    name: str = "said"
    usd: dict[str, tuple[Fraction | int | str, int]] = field(default_factory=dict)
    clock: Callable[[], int] = now_ms
    age_ms: int = 0
    answers: dict[str, Any] = field(default_factory=dict)
    before: Callable[[], Any] | None = None
    asked: list[frozenset[str]] = field(default_factory=list)

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        self.asked.append(frozenset(assets))
        if self.before is not None:
            await self.before()
        taken = self.clock() - self.age_ms
        said: dict[str, Any] = {
            asset: Price(Fraction(usd), decimals, taken)
            for asset, (usd, decimals) in self.usd.items()
        }
        return said | self.answers
