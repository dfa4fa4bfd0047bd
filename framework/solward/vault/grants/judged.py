"""The stored form of each transaction that grants judged; it suffices to judge it again.

A row of the table `judged_effects`, as plain values. The row has all facts of the case, even facts
that no grant read then, because another policy may read them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from solward.support import jsontext
from solward.vault.grants import dollars
from solward.vault.grants.decide import Need
from solward.vault.grants.dollars import AssetPrice
from solward.vault.grants.model import Case, Decision

ALLOWED: Final = "allowed"
HELD: Final = "held"
REFUSED: Final = "refused"
GRANTS_RULE: Final = "grants"
"""The rule that `guardrailsApplied` names, and the outcome, if grants refused a transaction."""


def grants_outcome(decision: Decision) -> str:
    """Return the decision of grants in one word: `ALLOWED`, `HELD` or `REFUSED`."""
    if decision.refused is not None:
        return REFUSED
    return HELD if decision.held else ALLOWED


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A transaction, the sums by which it was judged, the verdict of grants, and its outcome.

    The outcome differs from the verdict of grants if another rule refused the transaction or asked
    a person, if it was approved, or if it could not be held.

    Attributes:
        transaction_id: id of the transaction's record, or of its hold.
        type: the record's type.
        case: the case without `book` (part of the policy) and `dollars` (from `prices`).
        prices: asset -> its price at the judgement, for the assets whose prices were requested.
        used: the sums that were read for the judgement; empty if grants did not judge.
        version: version of the policy by which the transaction was judged.
        outcome: `ALLOWED`, `HELD`, or the rule that refused it.
        said: the verdict of grants: `ALLOWED`, `HELD`, `REFUSED`; None if an earlier rule refused.
    """

    transaction_id: str
    type: str
    case: Case
    outcome: str
    version: int
    prices: Mapping[str, AssetPrice] = field(default_factory=dict)
    used: Mapping[Need, int] = field(default_factory=dict)
    said: str | None = None


# Field of a case -> its name in `terms`; the other fields are columns, or not stored.
_TERMS: Final = {
    "now_ms": "nowMs",
    "swap": "swap",
    "is_admins": "admin",
    "is_approved": "approved",
    "own": "own",
    "paid": "paid",
    "lookalikes": "lookalikes",
    "launched": "launched",
    "listed": "listed",
}


def to_row(judged: JudgedCase) -> dict[str, Any]:
    """Return the row's columns. Its time is the database's clock, the first clock of the case."""
    case: dict[str, Any] = msgspec.to_builtins(judged.case, order="sorted")
    terms = {
        "version": judged.version,
        "said": judged.said,
        **{name: case[of_case] for of_case, name in _TERMS.items()},
        "used": [[*need, units] for need, units in sorted(judged.used.items())],
    }
    lines = [
        {name: value for name, value in line.items() if value is not None} for line in case["lines"]
    ]
    return {
        "transaction_id": judged.transaction_id,
        "wallet_id": judged.case.wallet_id,
        "created_ms": judged.case.now_ms[0],
        "chain": jsontext.dumps_own(case["chain"]),
        "type": judged.type,
        "lines": jsontext.dumps_own(lines),
        "costs_lamports": judged.case.costs_lamports,
        # Empty terms are left out, except an empty `listed`, which differs from None.
        "terms": jsontext.dumps_own(
            {name: terms[name] for name in terms if terms[name] or name == "listed"}
        ),
        "prices": jsontext.dumps_own(dollars.to_json(judged.prices)),
        "verdict": judged.outcome,
    }


def from_row(row: Mapping[str, Any]) -> JudgedCase:
    """Return the transaction from a row that `to_row` made."""
    terms = json.loads(row["terms"])
    case = {
        "wallet_id": row["wallet_id"],
        "chain": json.loads(row["chain"]),
        "lines": json.loads(row["lines"]),
        "costs_lamports": row["costs_lamports"],
        **{of_case: terms[name] for of_case, name in _TERMS.items() if name in terms},
    }
    return JudgedCase(
        transaction_id=row["transaction_id"],
        type=row["type"],
        case=msgspec.convert(case, Case),
        outcome=row["verdict"],
        version=terms.get("version", 0),
        prices=dollars.from_json(json.loads(row["prices"])),
        used={(scope, asset, ms): units for scope, asset, ms, units in terms.get("used", ())},
        said=terms.get("said"),
    )
