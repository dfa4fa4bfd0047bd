"""Grants as tests write them: in smallest units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from solward.support.durations import DAY_MS
from solward.types.guardrail import Operation
from solward.vault.grants.model import AssetLimit, Grant, Window
from solward.vault.grants.stored_form import grant_id

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
    return replace(made, id=grant_id(made))
