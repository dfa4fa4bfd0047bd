"""A transaction that waits for a person, as people and callers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from solward.support.clock import iso

GENERATED_KEY: Final = "generated-"
"""How an Idempotency-Key begins that a tool made for a caller who chose none, such as a model: it
does not make what is asked for a payment of its own beside the same one that waits."""

ACTION: Final = "hold:"
"""Before a hold's id, where a key stands for the hold and not for a transaction."""


class HoldState(StrEnum):
    """Where a hold stands."""

    HELD = "held"
    """It waits for a person."""
    APPROVED = "approved"
    """A person allowed it; it is carried out, or may be asked for again where that is not possible
    without the caller."""
    EXECUTED = "executed"
    """It used its approval: its record says how it ended."""
    REFUSED = "refused"
    """It was approved, and something refused it when it was judged again."""
    DENIED = "denied"
    """A person refused it."""
    EXPIRED = "expired"
    """Its time ended first."""

    @property
    def is_open(self) -> bool:
        """Whether it may still move money."""
        return self in (HoldState.HELD, HoldState.APPROVED)


@dataclass(frozen=True, slots=True)
class Hold:
    """One held transaction; nothing of it is reserved, signed or sent.

    Attributes:
        principal: who asks: `key:<id>` or `agent:<id>`.
        chain: every principal it needs, the wallet's first.
        type: of the transaction.
        sentence: what is asked, and why a person is.
        reasons: why it is held, a sentence each.
        lines: what leaves, as it was shown: `operation`, `asset`, `units` (text), `account`,
            `owner`, `decimals`; absent is omitted.
        costs_lamports: network fee and rent, at most.
        arrives: mint -> least units that must arrive (a swap's minimum).
        details: as a record has them.
        repeats: it cannot be made again without its caller, who asks again once it is approved.
        created_ms, expires_ms: Unix milliseconds by the clock of the limits' windows.
        decided_by: who approved or denied it: `admin`, `webhook` or `key:<id>`.
        decided_ms: when; None while nobody has.
        note: what they wrote beside it.
        transaction_id: of the record that it ended in; None while it is open.
    """

    id: str
    wallet_id: str
    agent_id: str | None
    principal: str
    chain: tuple[str, ...]
    type: str
    state: HoldState
    sentence: str
    reasons: tuple[str, ...]
    lines: tuple[Mapping[str, Any], ...]
    costs_lamports: int
    arrives: Mapping[str, int]
    details: Mapping[str, Any]
    repeats: bool
    created_ms: int
    expires_ms: int
    decided_by: str | None = None
    decided_ms: int | None = None
    note: str | None = None
    transaction_id: str | None = None

    @property
    def action(self) -> str:
        """Names its payment for good where the request had no action key."""
        return f"{ACTION}{self.id}"

    def to_json(self) -> dict[str, Any]:
        """As the API shows it; absent fields are omitted."""
        body: dict[str, Any] = {"id": self.id, "walletId": self.wallet_id}
        if self.agent_id is not None:
            body["agentId"] = self.agent_id
        body |= {
            "principal": self.principal,
            "chain": list(self.chain),
            "type": self.type,
            "state": self.state.value,
            "sentence": self.sentence,
            "reasons": list(self.reasons),
            "lines": [dict(line) for line in self.lines],
            "costsLamports": str(self.costs_lamports),
            "arrives": {mint: str(units) for mint, units in self.arrives.items()},
            "details": dict(self.details),
            "repeats": self.repeats,
            "createdAt": iso(self.created_ms),
            "expiresAt": iso(self.expires_ms),
        }
        if self.decided_by is not None and self.decided_ms is not None:
            body |= {"decidedBy": self.decided_by, "decidedAt": iso(self.decided_ms)}
        if self.note is not None:
            body["note"] = self.note
        if self.transaction_id is not None:
            body["transactionId"] = self.transaction_id
        return body

    def message(self) -> str:
        """For who requested it, a model for one."""
        until = iso(self.expires_ms)
        if self.state is HoldState.HELD:
            then = "ask for it again then" if self.repeats else "it is carried out then"
            end = "" if self.sentence.endswith(".") else "."
            return (
                f"Held ({self.id}): {self.sentence}{end} Nothing was sent. Do not repeat it: a"
                f" person may approve it until {until}, and {then}."
            )
        if self.state is HoldState.APPROVED:
            return f"Held ({self.id}): a person has approved it, and it is not carried out yet."
        return f"Held ({self.id}): it is {self.state.value}."

    def answer(self) -> dict[str, Any]:
        """What a caller is told in place of a record: nothing was sent."""
        return {
            "status": self.state.value,
            "holdId": self.id,
            "sentence": self.sentence,
            "expiresAt": iso(self.expires_ms),
        }
