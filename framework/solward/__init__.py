"""Solward: a Solana wallet that autonomous agents can use and cannot empty.

Everything a plugin author needs is imported from here, and only this is the public surface.
What needs the ledger's or the HTTP client's libraries is imported at its first use, so that
`import solward` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solward.hookspecs import hookimpl
from solward.types.errors import (
    GuardrailBlocked,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    ModelRefused,
    ProviderError,
    SkillError,
    SolwardError,
    TransactionError,
    TransactionFailed,
)
from solward.types.manifest import Manifest, Secret
from solward.types.money import (
    LAMPORTS_PER_SOL,
    format_amount,
    format_sol,
    from_units,
    lamports_to_sol,
    sol_to_lamports,
    to_units,
)
from solward.types.provider import (
    Completion,
    CompletionRequest,
    Message,
    ModelPrice,
    ProviderContext,
    ProviderSpec,
    ToolCall,
    ToolDefinition,
    Usage,
)
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.types.skill import Effects, SkillSpec, json_safe, tool_definitions

if TYPE_CHECKING:
    from solward.context import SkillContext, Store
    from solward.operations.declared import operation_parameters
    from solward.solana.balances import Balances, TokenBalance
    from solward.solana.programs import ASSOCIATED_TOKEN_PROGRAM, CLOCK_SYSVAR, WRAPPED_SOL_MINT
    from solward.solana.protocol import CHAIN_IDS
    from solward.solana.stakes import Stake, StakeState
    from solward.solana.token_list import token_list
    from solward.solana.tokens import (
        Mint,
        TokenAccount,
        associated_account_size,
        associated_address,
        mint_account,
        read_mint,
        token_account,
        transfer_fee,
    )
    from solward.support.base58 import is_address, is_signature
    from solward.types.entries import Entry, Put
    from solward.types.guardrail import (
        Charged,
        Hold,
        Intent,
        Line,
        Outflow,
        Request,
        TransactionEffects,
    )
    from solward.types.ledger import Account, ReadLedger, TokenHolding
    from solward.types.payment import (
        HttpAnswer,
        PaidAnswer,
        PaymentMode,
        PaymentOffer,
        PaymentProof,
        PaymentReceipt,
        PaymentSpec,
        PaymentSplit,
        PaymentView,
        read_json,
        read_units,
        write_json,
    )
    from solward.types.venue import (
        Quote,
        QuoteRequest,
        SwapInstructions,
        SwapTransaction,
        VenueContext,
        VenueSpec,
    )

    __version__: str

__all__ = [
    "ASSOCIATED_TOKEN_PROGRAM",
    "CHAIN_IDS",
    "CLOCK_SYSVAR",
    "LAMPORTS_PER_SOL",
    "WRAPPED_SOL_MINT",
    "Account",
    "Balances",
    "Charged",
    "Completion",
    "CompletionRequest",
    "Effects",
    "Entry",
    "GuardrailBlocked",
    "Hold",
    "HttpAnswer",
    "Intent",
    "InvalidRequest",
    "LedgerError",
    "LedgerUnavailable",
    "Line",
    "Manifest",
    "Message",
    "Mint",
    "ModelPrice",
    "ModelRefused",
    "Outflow",
    "PaidAnswer",
    "PaymentMode",
    "PaymentOffer",
    "PaymentProof",
    "PaymentReceipt",
    "PaymentSpec",
    "PaymentSplit",
    "PaymentView",
    "ProviderContext",
    "ProviderError",
    "ProviderSpec",
    "Put",
    "Quote",
    "QuoteRequest",
    "ReadLedger",
    "Request",
    "Secret",
    "SkillContext",
    "SkillError",
    "SkillSpec",
    "SolwardError",
    "Stake",
    "StakeState",
    "Store",
    "SwapInstructions",
    "SwapTransaction",
    "TokenAccount",
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
    "associated_address",
    "format_amount",
    "format_sol",
    "from_units",
    "hookimpl",
    "is_address",
    "is_signature",
    "json_safe",
    "lamports_to_sol",
    "mint_account",
    "operation_parameters",
    "read_json",
    "read_mint",
    "read_units",
    "sol_to_lamports",
    "to_units",
    "token_account",
    "token_list",
    "tool_definitions",
    "transfer_fee",
    "write_json",
]

_AT_FIRST_USE = {
    name: module
    for module, names in {
        "solward.context": "SkillContext Store",
        "solward.operations.declared": "operation_parameters",
        "solward.solana.balances": "Balances TokenBalance",
        "solward.solana.programs": "ASSOCIATED_TOKEN_PROGRAM CLOCK_SYSVAR WRAPPED_SOL_MINT",
        "solward.solana.protocol": "CHAIN_IDS",
        "solward.solana.stakes": "Stake StakeState",
        "solward.solana.token_list": "token_list",
        "solward.solana.tokens": (
            "Mint TokenAccount associated_account_size associated_address mint_account "
            "read_mint token_account transfer_fee"
        ),
        "solward.support.base58": "is_address is_signature",
        "solward.types.entries": "Entry Put",
        "solward.types.guardrail": "Charged Hold Intent Line Outflow Request TransactionEffects",
        "solward.types.ledger": "Account ReadLedger TokenHolding",
        "solward.types.payment": (
            "HttpAnswer PaidAnswer PaymentMode PaymentOffer PaymentProof PaymentReceipt "
            "PaymentSpec PaymentSplit PaymentView read_json read_units write_json"
        ),
        "solward.types.venue": (
            "Quote QuoteRequest SwapInstructions SwapTransaction VenueContext VenueSpec"
        ),
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("solward")
    elif name in _AT_FIRST_USE:
        value = getattr(importlib.import_module(_AT_FIRST_USE[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
