"""The service's answers, typed. Amounts are `Decimal` whole units, times are UTC.

These are the client's views of API answers, not the service's own classes of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Self

from solward.client.arguments import json_fields, moment_text
from solward.resources.answers import Answer, Raw, answer_of, named, sol, whole
from solward.resources.transactions import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """What the records of a list have in common; None asks for nothing.

    Attributes:
        recipient: an address; with the admin secret also a wallet's id, or the name of a contact,
            of a wallet or, as `@name`, of a group of the policy's address book.
        since: only records of this moment or later, a time with a zone.
        until: only records before this moment, a time with a zone.
    """

    wallet_id: str | None = None
    agent_id: str | None = None
    recipient: str | None = None
    type: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def query(self) -> dict[str, str]:
        """The fields of the query string; raises `InvalidRequest` for a time without a zone."""
        times = {name: moment_text(getattr(self, name), name) for name in ("since", "until")}
        return json_fields(**asdict(self) | times)


@dataclass(frozen=True, slots=True)
class TransactionPage(Answer):
    """One page of a filtered list.

    Attributes:
        next: the id that the next page begins behind, None where no older record fits. A page may
            have fewer records than were asked for, and one behind it.
    """

    transactions: tuple[Transaction, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class DryRun(Answer):
    """What a dry run tells; nothing was stored, reserved or sent.

    Attributes:
        held: whether a person would be asked.
        rule: the rule that refuses it.
        reason: why it is not allowed.
    """

    allowed: bool
    held: bool = field(default=False, kw_only=True)
    rule: str | None
    reason: str | None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer to a dry run; raises `ValueError` for any other."""
        if raw["dryRun"] is not True:
            raise ValueError("no dry run")
        return answer_of(cls, raw)


@dataclass(frozen=True, slots=True)
class Trial(DryRun):
    """The result of a dry run of a money call; nothing was stored, reserved or sent.

    Attributes:
        held: whether a person would be asked.
        rule: the rule that refuses it.
        reason: why it is not allowed.
        numbers: `asked`, `limit`, `left`, `used`, `unit`, `window`, `mint`: what the reason says.
        effects: the simulated effects (docs/transactions.md), where the simulation ran.
    """

    numbers: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    guardrails_applied: tuple[str, ...]
    effects: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class CouldLeave(Answer):
    """The most that a transaction's bytes could take.

    Attributes:
        lines: as a hold has them (docs/approvals.md).
        costs_sol: of fee and rent.
    """

    lines: tuple[Mapping[str, Any], ...]
    costs_sol: Decimal = field(metadata=named("costsLamports", sol))


@dataclass(frozen=True, slots=True)
class Judged(Answer):
    """A transaction with why it was refused, and what it could take.

    Attributes:
        rule: None where nothing refused it.
        reason: in the rule's words; empty where nothing refused it.
        numbers: `asked`, `limit`, `left`, `used`, `unit`, `window`, `mint`: what the reason says.
        could_leave: None where it was not judged by its bytes.
    """

    transaction: Transaction = field(metadata=whole(Transaction.of))
    rule: str | None
    reason: str
    numbers: Mapping[str, str]
    could_leave: CouldLeave | None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer of `GET /transactions/:id`."""
        refusal = raw.get("refusal")
        if refusal is None:
            return answer_of(cls, raw, rule=None, reason="", numbers={})
        rule, reason, numbers = refusal["rule"], refusal["reason"], refusal["numbers"]
        return answer_of(cls, raw, rule=rule, reason=reason, numbers=numbers)


@dataclass(frozen=True, slots=True)
class Refusals(Answer):
    """The newest refusals, and how many there were in 24 hours.

    Attributes:
        last_day: how many in 24 hours.
        by_rule: rule -> how many of these, most first.
        is_complete: whether these are all, or among the newest transactions alone.
    """

    refusals: tuple[Judged, ...]
    last_day: int = field(metadata=named("lastDay.count"))
    by_rule: Mapping[str, int] = field(metadata=named("lastDay.byRule"))
    is_complete: bool = field(metadata=named("lastDay.isComplete"))
