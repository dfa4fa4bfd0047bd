"""How a plugin's own transaction is made again once a person approved it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from solders.instruction import Instruction

from solward.types.guardrail import Intent


def recipe_of(instructions: Sequence[Instruction], intent: Intent) -> dict[str, Any]:
    """JSON-able; no blockhash is in it, nor anything else of a node."""
    return {
        "instructions": [base64.b64encode(bytes(each)).decode() for each in instructions],
        "intent": {
            "type": intent.type,
            "lamportsOut": intent.lamports_out,
            "rentLamports": intent.rent_lamports,
            "tokensOut": dict(intent.tokens_out),
            "tokensIn": dict(intent.tokens_in),
            "destinations": sorted(intent.destinations),
            "mayClose": sorted(intent.may_close),
            "details": dict(intent.details),
        },
    }


def read_recipe(recipe: Mapping[str, Any]) -> tuple[Intent, list[Instruction]]:
    """What the plugin declared and made; the wallet is the engine's to say."""
    made = [Instruction.from_bytes(base64.b64decode(each)) for each in recipe["instructions"]]
    stored = recipe["intent"]
    intent = Intent(
        type=stored["type"],
        wallet="",
        lamports_out=stored["lamportsOut"],
        rent_lamports=stored["rentLamports"],
        tokens_out=stored["tokensOut"],
        tokens_in=stored["tokensIn"],
        destinations=frozenset(stored["destinations"]),
        may_close=frozenset(stored["mayClose"]),
        details=stored["details"],
    )
    return intent, made
