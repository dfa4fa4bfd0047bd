"""Nothing goes to, through or under the control of a blocked address."""

from __future__ import annotations

from solders.pubkey import Pubkey

from solward.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage


def check(
    intent: Intent,
    effects: TransactionEffects | None,
    limits: ScopeLimits,
    usage: ScopeUsage,
    policy: Policy,
) -> str | None:
    """Refuse a blocked destination, account, token owner, or key hidden in instruction data."""
    if not policy.blocked_addresses:
        return None
    for address in sorted(policy.blocked_addresses & (intent.destinations | {intent.wallet})):
        return _blocked(address, "the wallet or a destination")
    touched = effects.addresses if effects is not None else frozenset()
    for address in sorted(policy.blocked_addresses & touched):
        return _blocked(address, "an account, or the owner of one")
    if effects is not None and effects.instruction_data:
        for address in sorted(policy.blocked_addresses):
            key = bytes(Pubkey.from_string(address))
            if any(key in data for data in effects.instruction_data):
                return _blocked(address, "a key in instruction data")
    return None


def _blocked(address: str, role: str) -> str:
    return f"address {address} is blocked; here it is {role}"
