"""Rows of figures, each ratio against the limit it must not fall below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """One comparison of two figures of the same run.

    Attributes:
        name: the same in every run, since runs are laid beside each other by it.
        at_least: the stated limit of figure / against; only this is a verdict.
    """

    name: str
    figure: float
    against: float
    unit: str
    at_least: float

    @property
    def ratio(self) -> float:
        """figure / against."""
        return self.figure / self.against

    @property
    def holds(self) -> bool:
        """Whether the ratio is at its limit or above."""
        return self.ratio >= self.at_least

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "BELOW"
        return (
            f"{self.name:<58} {self.figure:>9,.1f} / {self.against:>9,.1f} {self.unit:<6} "
            f"= {self.ratio:>7.3f}  (at least {self.at_least:g}: {verdict})"
        )


def at_most(name: str, limit: float, figure: float, unit: str) -> Ratio:
    """A figure that must not be above `limit`, as the ratio limit / figure of at least 1."""
    return Ratio(f"{name}: {limit:g} {unit} / measured", limit, figure, unit, 1.0)


def middle(name: str, pairs: Sequence[tuple[float, float]], unit: str, at_least: float) -> Ratio:
    """The pair of the middle ratio, of pairs (figure, against) that were measured in turn.

    What else the machine did meanwhile then hit both figures of each.
    """
    figure, against = sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]
    return Ratio(name, figure, against, unit, at_least)
