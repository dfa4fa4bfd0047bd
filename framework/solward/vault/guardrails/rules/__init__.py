"""The built-in rules, one a module, each a pure `check` that answers a reason to refuse or None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from solward.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.rules import (
    authority_change,
    blocked_address,
    daily_limit,
    fee_limit,
    max_per_tx,
    program_allowlist,
    rate_limit,
    simulated_effects,
    spending_limit_check,
)

Scope: TypeAlias = tuple[str, ScopeLimits, ScopeUsage]
Check: TypeAlias = Callable[
    [Intent, TransactionEffects | None, ScopeLimits, ScopeUsage, Policy], str | None
]


@dataclass(frozen=True, slots=True)
class Rule:
    """One built-in rule.

    Attributes:
        name: as stored in a record's `guardrailsApplied`.
        check: the rule; per-scope rules see one scope's limits and usage at a time.
        scopes: which scopes it judges, None for a rule that judges the transaction alone.
        needs_effects: it says nothing before the simulation.
    """

    name: str
    check: Check
    scopes: Callable[[str], bool] | None = None
    needs_effects: bool = False


def _every(_scope: str) -> bool:
    return True


def _is_key(scope: str) -> bool:
    return scope.startswith("key:")


def _is_not_key(scope: str) -> bool:
    return not _is_key(scope)


BUILT_IN: Final = (
    Rule("max_per_tx", max_per_tx.check, _every),
    Rule("rate_limit", rate_limit.check, _every),
    Rule("daily_limit", daily_limit.check, _is_not_key),
    Rule("program_allowlist", program_allowlist.check, needs_effects=True),
    Rule("blocked_address", blocked_address.check),
    Rule("spending_limit_check", spending_limit_check.check, _is_key),
    Rule("fee_limit", fee_limit.check, needs_effects=True),
    Rule("simulated_effects", simulated_effects.check, needs_effects=True),
    Rule("authority_change", authority_change.check, needs_effects=True),
)
