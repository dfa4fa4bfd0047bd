"""A completion request as an agent makes it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from solward.types.provider import CompletionRequest, Message, ToolDefinition

WAIT = ToolDefinition(
    "wait",
    "Do nothing this cycle.",
    {
        "type": "object",
        "properties": {"reason": {"type": "string", "maxLength": 1000}},
        "additionalProperties": False,
    },
)
TRANSFER = ToolDefinition(
    "transfer",
    "Send SOL from the wallet to another Solana address.",
    {
        "type": "object",
        "properties": {
            "to": {"type": "string", "minLength": 32, "maxLength": 44},
            "amount": {"type": "number", "exclusiveMinimum": 0},
            "memo": {"type": ["string", "null"], "default": None},
        },
        "required": ["to", "amount"],
        "additionalProperties": False,
    },
)


def provider_request(**changes: Any) -> CompletionRequest:
    """A request as an agent's cycle makes it; `changes` are its fields by name."""
    fields: dict[str, Any] = {
        "model": "test-model",
        "system": "You manage a Solana wallet. Your strategy:\nalways do wait",
        "messages": (
            Message("user", "Cycle 1. SOL balance: 10."),
            Message("assistant", "Waiting."),
            Message("user", "Cycle 2. SOL balance: 10. What do you do?"),
        ),
        "tools": (WAIT, TRANSFER),
        "observation": {"cycle": 2, "solBalance": Decimal(10), "tokenBalances": []},
        "strategy": "always do wait",
        "max_output_tokens": 256,
    }
    return CompletionRequest(**(fields | changes))
