"""Judgement of a transaction before it is signed: pure, and the same for every caller."""

from solward.vault.guardrails.counting import counted_lamports, counted_tokens, max_debit
from solward.vault.guardrails.effects import analyse
from solward.vault.guardrails.errors import UntrustedSimulation
from solward.vault.guardrails.fees import network_fee
from solward.vault.guardrails.inner import inner_from_json
from solward.vault.guardrails.judge import ExtraRule, judge
from solward.vault.guardrails.model import (
    RULES,
    Invocation,
    Policy,
    ScopeLimits,
    ScopeUsage,
    Simulation,
    Verdict,
)

__all__ = [
    "RULES",
    "ExtraRule",
    "Invocation",
    "Policy",
    "ScopeLimits",
    "ScopeUsage",
    "Simulation",
    "UntrustedSimulation",
    "Verdict",
    "analyse",
    "counted_lamports",
    "counted_tokens",
    "inner_from_json",
    "judge",
    "max_debit",
    "network_fee",
]
