"""The verdict: every rule in order, the first refusal ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from solward.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage, Verdict
from solward.vault.guardrails.rules import BUILT_IN, Scope

# A plugin's rule: its name as recorded, and a pure function answering a reason to refuse or None.
ExtraRule: TypeAlias = tuple[str, Callable[[Intent, TransactionEffects], str | None]]


def judge(
    intent: Intent,
    effects: TransactionEffects | None,
    scopes: Sequence[tuple[str, ScopeLimits, ScopeUsage]],
    policy: Policy,
    extra_rules: Sequence[ExtraRule] = (),
) -> Verdict:
    """Evaluate the built-in rules in the order of `RULES`, then `extra_rules`.

    Every scope binds, so the strictest does. With `effects` None (not simulated yet, or an
    airdrop the network makes) only the rules that judge a declaration run. An extra rule can
    only refuse: one that raises, or answers anything but None, has refused.

    Args:
        scopes: (`wallet:<id>` | `agent:<id>` | `key:<id>`, its limits, what it has used).
    """
    applied: list[str] = []
    for rule in BUILT_IN:
        if effects is None and rule.needs_effects:
            continue
        applied.append(rule.name)
        judged: Sequence[Scope] = [
            scope for scope in scopes if rule.scopes is not None and rule.scopes(scope[0])
        ]
        if rule.scopes is None:
            judged = [("", ScopeLimits(), ScopeUsage())]
        for name, limits, usage in judged:
            reason = rule.check(intent, effects, limits, usage, policy)
            if reason is not None:
                return Verdict(tuple(applied), rule.name, reason + _whose(name))
    if effects is not None:
        for name, check in extra_rules:
            applied.append(name)
            refusal = _extra(check, intent, effects)
            if refusal is not None:
                return Verdict(tuple(applied), name, refusal)
    return Verdict(tuple(applied))


def _whose(scope: str) -> str:
    kind = scope.partition(":")[0]
    return f" (limit of the {'API key' if kind == 'key' else kind})" if kind else ""


def _extra(
    check: Callable[[Intent, TransactionEffects], str | None],
    intent: Intent,
    effects: TransactionEffects,
) -> str | None:
    try:
        answer: object = check(intent, effects)
    except Exception as error:
        return f"the rule failed: {type(error).__name__}"
    if answer is None:
        return None
    return answer if isinstance(answer, str) else "the rule refused"
