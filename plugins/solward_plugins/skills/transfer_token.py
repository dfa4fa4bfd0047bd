"""transfer_token: send tokens to an address."""

from __future__ import annotations

from typing import Any

from solward import (
    Effects,
    SkillContext,
    SkillSpec,
    format_amount,
    hookimpl,
    operation_parameters,
)
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends a token; without a grant no token leaves by it."""
    return SkillSpec(
        name="transfer_token",
        description=(
            "Send an amount of a token from the wallet to another Solana address. Needs a grant to"
            " transfer this token; the grant's limits and recipients apply."
        ),
        parameters=operation_parameters("transfer_token"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say what was sent to whom, the status and the signature."""
    record = await context.transfer_token(
        mint=params["mint"], to=params["to"], amount=params["amount"]
    )
    details = record.details
    symbol = context.tokens.symbol_of(details["mint"]) or details["mint"]
    what = f"{format_amount(details['amount'])} {symbol} to {details['to']}"
    return tell(record, f"Sent {what}.", f"a transfer of {what}.")
