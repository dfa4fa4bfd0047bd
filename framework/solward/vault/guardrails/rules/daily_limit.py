"""No wallet and no agent spends more in a rolling 24 hours than it may: SOL, and each mint."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.money import format_sol
from solward.vault.guardrails.counting import counted_lamports, counted_tokens
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.wording import token_unit


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse when the counted amounts exceed what is left of the scope's day; 0 always passes."""
    counted = counted_lamports(intent, effects)
    if limits.daily_lamports is not None:
        left = max(0, limits.daily_lamports - usage.lamports_last_day)
        if counted > left:
            return (
                f"{format_sol(counted)} SOL is more than the {format_sol(left)} SOL left of the "
                f"{format_sol(limits.daily_lamports)} SOL allowed in 24 hours; "
                f"{format_sol(usage.lamports_last_day)} SOL is spent or reserved"
            )
    for mint, units in counted_tokens(intent, effects).items():
        most = limits.daily_tokens.get(mint)
        if most is None:
            continue
        spent = usage.tokens_last_day.get(mint, 0)
        left = max(0, most - spent)
        if units > left:
            unit = token_unit(mint, effects)
            return (
                f"{unit.amount(units)} {unit} are more than the {unit.amount(left)} left of the "
                f"{unit.amount(most)} allowed in 24 hours; {unit.amount(spent)} are spent or "
                "reserved"
            )
    return None
