"""No API key spends more in a rolling 24 hours, over all wallets, than it may."""

from __future__ import annotations

from solward.guardrails.model import Effects, Intent, Policy, ScopeLimits, Usage
from solward.guardrails.rules import daily_limit


def check(
    intent: Intent,
    effects: Effects | None,
    limits: ScopeLimits,
    usage: Usage,
    policy: Policy,
) -> str | None:
    """Refuse as `daily_limit` does, for the key's own scope."""
    return daily_limit.check(intent, effects, limits, usage, policy)
