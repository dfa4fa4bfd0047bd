"""Control over the wallet and what is its own is given to nobody; declared revokes excepted."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.rules.violations import first_violation
from solward.vault.guardrails.wording import listed

_REVOCABLE = frozenset({"mint_authority", "freeze_authority"})


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse any delegate, owner or authority change that is not a declared revoke."""
    if effects is None:
        return None
    for change in effects.authority_changes:
        declared = (
            change.to is None and change.kind in _REVOCABLE and change.account in intent.may_revoke
        )
        if not declared:
            return (
                f"{change.kind} of {change.account} would pass to {change.to or 'nobody'}; allowed "
                "is giving up the mint or freeze authority of a declared mint, declared are "
                f"{listed(intent.may_revoke)}"
            )
    return first_violation(effects, "authority_change")
