"""Rows of figures, each ratio against the limit it must not fall below."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """One comparison of two figures of the same run.

    Attributes:
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
