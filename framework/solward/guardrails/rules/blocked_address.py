"""Nothing goes to, through or under the control of a blocked address."""

from __future__ import annotations

from solders.pubkey import Pubkey

from solward.guardrails.model import Effects, Intent, Policy, ScopeLimits, Usage


def check(
    intent: Intent,
    effects: Effects | None,
    limits: ScopeLimits,
    usage: Usage,
    policy: Policy,
) -> str | None:
    """Refuse a blocked destination, account, token owner, or key hidden in instruction data."""
    if not policy.blocked_addresses:
        return None
    named = intent.destinations | {intent.wallet}
    if effects is not None:
        named = named | effects.addresses
    for address in sorted(policy.blocked_addresses & named):
        return f"address {address} is blocked"
    if effects is not None and effects.instruction_data:
        for address in sorted(policy.blocked_addresses):
            key = bytes(Pubkey.from_string(address))
            if any(key in data for data in effects.instruction_data):
                return f"address {address} is blocked"
    return None
