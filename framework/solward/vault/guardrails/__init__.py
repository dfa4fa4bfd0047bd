"""Judgement of a transaction before it is signed: pure, and the same for every caller."""

from solward.vault.guardrails.effects import analyse, simulated_effects
from solward.vault.guardrails.rules import (
    CLOCK_RULE,
    COSTS_RULE,
    FREEZE_RULE,
    OWN_RULES,
    RULES,
    PluginGuardrail,
    Policy,
    ScopeLimits,
    ScopeUsage,
    Verdict,
    counted_costs,
    counted_lamports,
    counted_tokens,
    expected_debit,
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
    "CLOCK_RULE",
    "COSTS_RULE",
    "FREEZE_RULE",
    "OWN_RULES",
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
    "counted_costs",
    "counted_lamports",
    "counted_tokens",
    "expected_debit",
    "inner_from_json",
    "judge",
    "max_debit",
    "simulated_effects",
]
