"""The outcome of a dry run: judged as it would be now; nothing is stored, reserved or sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from solward.types.guardrail import TransactionEffects
from solward.types.money import lamports_to_sol
from solward.vault.guardrails.rules import Verdict


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a transaction would be signed, and what it would do.

    Attributes:
        verdict: of the rules that could run.
        effects: None where nothing could be simulated.
        failure: why it would fail though no rule refuses it.
    """

    verdict: Verdict
    effects: TransactionEffects | None
    failure: str | None = None

    @property
    def allowed(self) -> bool:
        """Whether it would be signed and sent, without asking a person."""
        return self.verdict.allowed and self.verdict.hold is None and self.failure is None

    def to_json(self) -> dict[str, Any]:
        """SOL as Decimal, token amounts as text in the mint's smallest unit; absent is omitted."""
        body: dict[str, Any] = {"dryRun": True, "allowed": self.allowed}
        if self.verdict.rule is not None:
            body["rule"] = self.verdict.rule
        elif self.verdict.hold is not None:
            body["held"] = True
        reason = self.verdict.reason or self.failure or self.verdict.hold
        if reason is not None:
            body["reason"] = reason
        if self.verdict.numbers is not None:
            body["numbers"] = self.verdict.numbers.to_json()
        body["guardrailsApplied"] = list(self.verdict.applied)
        if self.effects is not None:
            body["effects"] = _effects_json(self.effects)
        return body


class TrialEnded(Exception):
    """Raised to the caller of a dry run, in place of a record."""

    def __init__(self, trial: Trial) -> None:
        super().__init__("A dry run sends nothing")
        self.trial = trial


def _effects_json(effects: TransactionEffects) -> dict[str, Any]:
    return {
        "solOut": lamports_to_sol(effects.lamports_out),
        "fee": lamports_to_sol(effects.fee_lamports),
        "rent": lamports_to_sol(effects.rent_lamports),
        "accountsCreated": effects.accounts_created,
        "tokensOut": {mint: str(units) for mint, units in sorted(effects.tokens_out.items())},
        "tokensIn": {mint: str(units) for mint, units in sorted(effects.tokens_in.items())},
        "programs": sorted(effects.programs),
        "authorityChanges": [
            {"kind": change.kind, "account": change.account, "to": change.to}
            for change in effects.authority_changes
        ],
        "closedAccounts": dict(sorted(effects.closed.items())),
    }
