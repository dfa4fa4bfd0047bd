"""What was refused and why, as the service answers it, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from solward.client.models import Raw, Transaction


@dataclass(frozen=True, slots=True)
class CouldLeave:
    """The most that a transaction's bytes could take.

    Attributes:
        lines: as a hold has them (docs/approvals.md).
        costs_sol: of fee and rent.
    """

    lines: tuple[Mapping[str, Any], ...]
    costs_sol: Decimal


@dataclass(frozen=True, slots=True)
class Judged:
    """A transaction with why it was refused, and what it could take.

    Attributes:
        rule: None where nothing refused it.
        reason: in the rule's words; empty where nothing refused it.
        numbers: `asked`, `limit`, `left`, `used`, `unit` and `window`, as far as the reason says.
        could_leave: None where it was not judged by its bytes.
    """

    transaction: Transaction
    rule: str | None
    reason: str
    numbers: Mapping[str, str]
    could_leave: CouldLeave | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Judged:
        """From the answer of `GET /transactions/:id`."""
        refusal, leaving = raw.get("refusal"), raw.get("couldLeave")
        return cls(
            transaction=Transaction.of(raw),
            rule=None if refusal is None else refusal["rule"],
            reason="" if refusal is None else refusal["reason"],
            numbers={} if refusal is None else refusal["numbers"],
            could_leave=None
            if leaving is None
            else CouldLeave(tuple(leaving["lines"]), Decimal(leaving["costsLamports"]).scaleb(-9)),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Refusals:
    """The newest refusals, and how many there were in 24 hours.

    Attributes:
        last_day: how many in 24 hours.
        by_rule: rule -> how many of these, most first.
        is_complete: whether these are all, or among the newest transactions alone.
    """

    refusals: tuple[Judged, ...]
    last_day: int
    by_rule: Mapping[str, int]
    is_complete: bool
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Refusals:
        """From the answer of `GET /refusals`."""
        day = raw["lastDay"]
        return cls(
            tuple(map(Judged.of, raw["refusals"])),
            day["count"],
            day["byRule"],
            day["isComplete"],
            raw,
        )
