"""Judgement of a transaction before it is signed: pure, and the same for every caller."""

from solward.vault.guardrails.effects import analyse
from solward.vault.guardrails.model import DEFAULT_PROGRAMS, Policy, ScopeLimits, ScopeUsage
from solward.vault.guardrails.rules import (
    RULES,
    PluginGuardrail,
    Verdict,
    counted_lamports,
    counted_tokens,
    judge,
    max_debit,
)
from solward.vault.guardrails.simulation import (
    Invocation,
    Simulation,
    UntrustedSimulation,
    inner_from_json,
)

__all__ = [
    "DEFAULT_PROGRAMS",
    "RULES",
    "Invocation",
    "PluginGuardrail",
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
]
