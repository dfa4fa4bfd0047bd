"""Judgement of a transaction before it is signed: pure, and the same for every caller."""

from solward.guardrails.counting import counted_lamports, counted_tokens, max_debit
from solward.guardrails.effects import analyse
from solward.guardrails.errors import MalformedTransaction, UntrustedSimulation
from solward.guardrails.fees import network_fee
from solward.guardrails.inner import inner_from_json
from solward.guardrails.judge import ExtraRule, judge
from solward.guardrails.message import (
    AnyMessage,
    decode_transaction,
    lookup_tables,
    required_signers,
    resolve,
)
from solward.guardrails.model import (
    RULES,
    AccountState,
    AuthorityChange,
    Call,
    Effects,
    Intent,
    Policy,
    ResolvedKey,
    ScopeLimits,
    Simulation,
    Usage,
    Verdict,
)
from solward.guardrails.programs import DEFAULT_PROGRAMS, WRAPPED_SOL

__all__ = [
    "DEFAULT_PROGRAMS",
    "RULES",
    "WRAPPED_SOL",
    "AccountState",
    "AnyMessage",
    "AuthorityChange",
    "Call",
    "Effects",
    "ExtraRule",
    "Intent",
    "MalformedTransaction",
    "Policy",
    "ResolvedKey",
    "ScopeLimits",
    "Simulation",
    "UntrustedSimulation",
    "Usage",
    "Verdict",
    "analyse",
    "counted_lamports",
    "counted_tokens",
    "decode_transaction",
    "inner_from_json",
    "judge",
    "lookup_tables",
    "max_debit",
    "network_fee",
    "required_signers",
    "resolve",
]
