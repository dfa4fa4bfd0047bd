"""A dry run: judged as it would be now, with nothing stored, reserved or sent."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from solward.errors import LedgerError
from solward.guardrail import Intent, TransactionEffects
from solward.money import lamports_to_sol
from solward.vault.guardrails import Verdict
from solward.vault.transactions.assess import Assessor
from solward.vault.transactions.request import Actor, Draft
from solward.vault.transactions.reservation import Reserver


@dataclass(frozen=True, slots=True)
class Trial:
    """What would become of a transaction.

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
        """Whether it would be signed and sent."""
        return self.verdict.allowed and self.failure is None

    def to_json(self) -> dict[str, Any]:
        """SOL as Decimal, token amounts as text in the mint's smallest unit; absent is omitted."""
        body: dict[str, Any] = {"dryRun": True, "allowed": self.allowed}
        if self.verdict.rule is not None:
            body["rule"] = self.verdict.rule
        reason = self.verdict.reason or self.failure
        if reason is not None:
            body["reason"] = reason
        body["guardrailsApplied"] = list(self.verdict.applied)
        if self.effects is not None:
            body["effects"] = _effects_json(self.effects)
        return body


class TrialEnded(Exception):
    """Raised to whoever asked for a dry run, in place of a record."""

    def __init__(self, trial: Trial) -> None:
        super().__init__("A dry run sends nothing")
        self.trial = trial


class Trials:
    """Judges with the engine's own assessor and reserver."""

    def __init__(self, assessor: Assessor, reserver: Reserver) -> None:
        self._assessor = assessor
        self._reserver = reserver

    async def draft(self, wallet_id: str, actor: Actor, draft: Draft) -> Trial:
        """Simulate and judge; raises `InvalidRequest` as the assessor does."""
        try:
            assessed = await self._assessor.assess(draft, str(uuid.uuid4()), trial=True)
        except LedgerError as error:
            return await self.intent(wallet_id, actor, draft.intent, failure=str(error))
        failure = would_fail(assessed.failure) if assessed.effects is None else None
        return await self.intent(wallet_id, actor, draft.intent, assessed.effects, failure)

    async def intent(
        self,
        wallet_id: str,
        actor: Actor,
        intent: Intent,
        effects: TransactionEffects | None = None,
        failure: str | None = None,
    ) -> Trial:
        """Judge a declaration with its effects, or without them where they are not known."""
        verdict = await self._reserver.trial(wallet_id, actor, intent, effects)
        return Trial(verdict, effects, failure)


def would_fail(failure: str | None) -> str:
    """How a transaction is refused whose simulation failed."""
    return f"The transaction would fail: {failure}"


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
