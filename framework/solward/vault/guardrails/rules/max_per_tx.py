"""No transaction moves more SOL than its scopes allow at once."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.money import format_sol
from solward.vault.guardrails.counting import counted_lamports
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse when the counted lamports exceed the scope's limit per transaction."""
    most = limits.max_lamports_per_tx
    counted = counted_lamports(intent, effects)
    if most is None or counted <= most:
        return None
    return (
        f"{format_sol(counted)} SOL is more than the {format_sol(most)} SOL allowed per transaction"
    )
