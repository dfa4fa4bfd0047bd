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
    operation_parameters,
)


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the input token."""
    return SkillSpec(
        name="swap",
        description=(
            "Sell an exact amount of one token for another at the market's price. The spending"
            " limits apply. Check the balance first."
        ),
        parameters=operation_parameters("swap"),
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
