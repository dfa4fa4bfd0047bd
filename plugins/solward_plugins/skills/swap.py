"""swap: sell one token for another at the venue."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from solward import (
    Effects,
    SkillContext,
    SkillSpec,
    TransactionStatus,
    format_amount,
    hookimpl,
)

_TOKEN = "Mint address, or a symbol known on this network such as SOL or USDC."  # noqa: S105 - text


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the input token."""
    token = {"type": "string", "minLength": 1, "maxLength": 64, "description": _TOKEN}
    return SkillSpec(
        name="swap",
        description=(
            "Sell an exact amount of one token for another at the market's price. The spending"
            " limits apply. Check the balance first."
        ),
        parameters={
            "type": "object",
            "properties": {
                "inputToken": token,
                "outputToken": token,
                "amount": {
                    "type": "number",
                    "description": "Amount of the input token to sell, in whole tokens.",
                    "exclusiveMinimum": 0,
                },
                "slippageBps": {
                    "type": "integer",
                    "description": "Most the price may move, in basis points; 50 is 0.5%.",
                    "minimum": 0,
                    "maximum": 10000,
                    "default": 50,
                },
            },
            "required": ["inputToken", "outputToken", "amount"],
            "additionalProperties": False,
        },
        effects=Effects.SPEND,
        timeout_s=120.0,
        examples=(
            {"inputToken": "SOL", "outputToken": "USDC", "amount": 1},
            {"inputToken": "SOL", "outputToken": "USDC", "amount": 1, "slippageBps": 100},
        ),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say what was sold, what came for it, and the signature."""
    record = await context.swap(
        input_token=params["inputToken"],
        output_token=params["outputToken"],
        amount=params["amount"],
        slippage_bps=params["slippageBps"],
    )
    details = record.details
    sold = _amount(context, details["inputAmount"], details["inputToken"])
    bought = _amount(context, details["outputAmount"], details["outputToken"])
    if record.status is TransactionStatus.CONFIRMED:
        outcome = f"Swapped {sold} for {bought}. Status: confirmed."
    else:
        outcome = (
            f"Submitted a swap of {sold} for about {bought}. Status: {record.status}."
            " It is not known yet whether it lands; do not repeat it."
        )
    return f"{outcome} Signature: {record.signature}."


def _amount(context: SkillContext, amount: Decimal | int, mint: str) -> str:
    return f"{format_amount(amount)} {context.tokens.symbol_of(mint) or mint}"
