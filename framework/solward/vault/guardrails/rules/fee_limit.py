"""Network fees, rent and the number of new accounts stay within bounds."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.money import format_sol
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.rules.violations import first_violation


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse a fee or rent above the policy, undeclared rent, or too many new accounts."""
    if effects is None:
        return None
    if effects.fee_lamports > policy.max_fee_lamports:
        return (
            f"a network fee of {format_sol(effects.fee_lamports)} SOL is more than the "
            f"{format_sol(policy.max_fee_lamports)} SOL allowed"
        )
    rent = min(policy.max_rent_lamports, intent.rent_lamports)
    if effects.rent_lamports > rent:
        whose = "declared" if rent == intent.rent_lamports else "allowed"
        return (
            f"rent of {format_sol(effects.rent_lamports)} SOL is more than the "
            f"{format_sol(rent)} SOL {whose} for new accounts"
        )
    if effects.accounts_created > policy.max_accounts_created:
        return (
            f"{effects.accounts_created} new accounts are more than the "
            f"{policy.max_accounts_created} allowed in one transaction"
        )
    return first_violation(effects, "fee_limit")
