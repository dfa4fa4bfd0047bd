"""What the analysis found that no declaration can allow."""

from __future__ import annotations

from solward.guardrail import TransactionEffects


def first_violation(effects: TransactionEffects, rule: str) -> str | None:
    """The reason of the first violation filed under `rule`."""
    return next((reason for name, reason in effects.violations if name == rule), None)
