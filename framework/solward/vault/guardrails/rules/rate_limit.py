"""No scope makes more transactions in a sliding minute than it may."""

from __future__ import annotations

from solward.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse when the scope has no transaction left this minute; blocked attempts count none."""
    most = limits.max_tx_per_minute
    if most is None or usage.tx_last_minute < most:
        return None
    reason = (
        f"{usage.tx_last_minute} transactions in the last minute leave none of the {most} allowed"
    )
    if usage.next_tx_ms is None:
        return reason
    # Rounded up: whoever waits as long as they are told must not come too early.
    return f"{reason}; the next is possible in {-(-usage.next_tx_ms // 1000)} s"
