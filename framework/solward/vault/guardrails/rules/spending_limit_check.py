"""No API key spends more in a rolling 24 hours, over all wallets, than it may."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.rules import daily_limit


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse as `daily_limit` does, for the key's own scope."""
    return daily_limit.check(intent, effects, limits, usage, policy)
