"""The transaction does to the wallet what its intent declares, and nothing more."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.money import format_sol
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.rules.violations import first_violation
from solward.vault.guardrails.wording import listed, token_unit


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse outflow beyond the declaration, inflow below it, and undeclared closes or accounts."""
    if effects is None:
        return None
    violation = first_violation(effects, "simulated_effects")
    if violation is not None:
        return violation
    if effects.lamports_out > intent.lamports_out:
        return (
            f"{format_sol(effects.lamports_out)} SOL would leave the wallet, "
            f"{format_sol(intent.lamports_out)} SOL is declared"
        )
    return _tokens(intent, effects) or _accounts(intent, effects)


def _tokens(intent: Intent, effects: TransactionEffects) -> str | None:
    for mint, units in sorted(effects.tokens_out.items()):
        declared = intent.tokens_out.get(mint, 0)
        if units > declared:
            unit = token_unit(mint, effects)
            return (
                f"{unit.amount(units)} {unit} would leave the wallet, {unit.amount(declared)} "
                "are declared"
            )
    for mint, least in sorted(intent.tokens_in.items()):
        arriving = effects.tokens_in.get(mint, 0)
        if arriving < least:
            unit = token_unit(mint, effects)
            return (
                f"{unit.amount(arriving)} {unit} would arrive, at least {unit.amount(least)} "
                "are required"
            )
    return None


def _accounts(intent: Intent, effects: TransactionEffects) -> str | None:
    for account, receiver in sorted(effects.closed.items()):
        if receiver != intent.wallet:
            return (
                f"account {account} would be closed to {receiver}, which is not the wallet "
                f"{intent.wallet}"
            )
        if account not in intent.may_close:
            return (
                f"account {account} would be closed, which is not declared; declared are "
                f"{listed(intent.may_close)}"
            )
    for account, owner in sorted(effects.created.items()):
        if not {account, owner} & (intent.destinations | {intent.wallet}):
            return (
                f"account {account} would be paid for, whose owner {owner} is not declared; "
                f"declared are {listed(intent.destinations | {intent.wallet})}"
            )
    return None
