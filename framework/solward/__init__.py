"""Solward: a Solana wallet that autonomous agents can use and cannot empty.

Everything a plugin author needs is imported from here, and only this is the public surface.
What needs the ledger's or the HTTP client's libraries is imported at its first use, so that
`import solward` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solward.dialects import json_safe, tool_definitions
from solward.errors import (
    GuardrailBlocked,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    ProviderError,
    SkillError,
    SolwardError,
    TransactionError,
    TransactionFailed,
)
from solward.hookspecs import hookimpl
from solward.money import (
    LAMPORTS_PER_SOL,
    format_amount,
    format_sol,
    from_units,
    lamports_to_sol,
    sol_to_lamports,
    to_units,
)
from solward.provider import (
    Completion,
    CompletionRequest,
    Message,
    ProviderContext,
    ProviderSpec,
    ToolCall,
    ToolDefinition,
    Usage,
)
from solward.record import TransactionRecord, TransactionStatus, TransactionType
from solward.skill import Effects, SkillSpec

if TYPE_CHECKING:
    from solward.context import SkillContext
    from solward.guardrails.model import Effects as TransactionEffects
    from solward.guardrails.model import Intent
    from solward.ledger.mints import Mint, associated_account_size, read_mint
    from solward.ledger.protocol import Account, ReadLedger, TokenHolding
    from solward.ledger.stakes import Stake, StakeState
    from solward.ledger.token_list import WRAPPED_SOL_MINT
    from solward.operations.balances import Balances, TokenBalance
    from solward.venue import Quote, QuoteRequest, SwapTransaction, VenueContext, VenueSpec

    __version__: str

__all__ = [
    "LAMPORTS_PER_SOL",
    "WRAPPED_SOL_MINT",
    "Account",
    "Balances",
    "Completion",
    "CompletionRequest",
    "Effects",
    "GuardrailBlocked",
    "Intent",
    "InvalidRequest",
    "LedgerError",
    "LedgerUnavailable",
    "Message",
    "Mint",
    "ProviderContext",
    "ProviderError",
    "ProviderSpec",
    "Quote",
    "QuoteRequest",
    "ReadLedger",
    "SkillContext",
    "SkillError",
    "SkillSpec",
    "SolwardError",
    "Stake",
    "StakeState",
    "SwapTransaction",
    "TokenBalance",
    "TokenHolding",
    "ToolCall",
    "ToolDefinition",
    "TransactionEffects",
    "TransactionError",
    "TransactionFailed",
    "TransactionRecord",
    "TransactionStatus",
    "TransactionType",
    "Usage",
    "VenueContext",
    "VenueSpec",
    "__version__",
    "associated_account_size",
    "format_amount",
    "format_sol",
    "from_units",
    "hookimpl",
    "json_safe",
    "lamports_to_sol",
    "read_mint",
    "sol_to_lamports",
    "to_units",
    "tool_definitions",
]

_AT_FIRST_USE = {
    "SkillContext": "solward.context",
    "Account": "solward.ledger.protocol",
    "ReadLedger": "solward.ledger.protocol",
    "TokenHolding": "solward.ledger.protocol",
    "Intent": "solward.guardrails.model",
    "TransactionEffects": "solward.guardrails.model:Effects",
    "Mint": "solward.ledger.mints",
    "associated_account_size": "solward.ledger.mints",
    "read_mint": "solward.ledger.mints",
    "Stake": "solward.ledger.stakes",
    "StakeState": "solward.ledger.stakes",
    "WRAPPED_SOL_MINT": "solward.ledger.token_list",
    "Balances": "solward.operations.balances",
    "TokenBalance": "solward.operations.balances",
    "Quote": "solward.venue",
    "QuoteRequest": "solward.venue",
    "SwapTransaction": "solward.venue",
    "VenueContext": "solward.venue",
    "VenueSpec": "solward.venue",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("solward")
    elif name in _AT_FIRST_USE:
        module, _, other = _AT_FIRST_USE[name].partition(":")
        value = getattr(importlib.import_module(module), other or name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
