"""Only programs the policy lists are called, and only instructions that are understood."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.solana.programs import DEFAULT_PROGRAMS
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.rules.violations import first_violation
from solward.vault.guardrails.wording import named_programs


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse an inner or top-level program outside the policy, or not named by the intent.

    Programs beyond the default ones must be in both, so a plugin's intent cannot allow itself a
    program, and a transfer cannot wander through an exchange the policy lists for swaps.
    """
    if effects is None:
        return None
    allowed = policy.allowed_programs & (DEFAULT_PROGRAMS | intent.programs)
    for program in sorted(effects.programs - allowed):
        if program in policy.allowed_programs:
            return (
                f"program {program} is called but not declared; allowed here are "
                f"{named_programs(allowed)}"
            )
        return (
            f"program {program} is not on the allowlist; allowed are "
            f"{named_programs(policy.allowed_programs)}"
        )
    return first_violation(effects, "program_allowlist")
