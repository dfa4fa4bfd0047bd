"""Price sources that say what a test wants, and a clock that it sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from solward.support.clock import now_ms
from solward.vault.grants.dollars import Price

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
