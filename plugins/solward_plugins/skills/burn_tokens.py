"""burn_tokens: destroy tokens the wallet holds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from solward import (
    Effects,
    LedgerError,
    SkillContext,
    SkillSpec,
    format_amount,
    hookimpl,
    operation_parameters,
)
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the burned token."""
    return SkillSpec(
        name="burn_tokens",
        description=(
            "Destroy an amount of a token the wallet holds, for ever. The token's limits apply."
            " Check the balance first."
        ),
        parameters=operation_parameters("burn"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say what was destroyed, the signature, and what the wallet still holds of it."""
    record = await context.burn(mint=params["mint"], amount=params["amount"])
    mint = record.details["mint"]
    what = f"{format_amount(record.details['amount'])} of {context.tokens.symbol_of(mint) or mint}"
    told = tell(record, f"Burned {what}.", f"the burning of {what}.")
    return f"{told}{await _left(context, mint)}"


async def _left(context: SkillContext, mint: str) -> str:
    # The tokens are gone: a ledger that does not answer now must not make this a failure.
    try:
        balances = await context.balances()
    except LedgerError:
        return ""
    held = sum((token.ui for token in balances.tokens if token.mint == mint), Decimal(0))
    return f" The wallet holds {format_amount(held)} of it now."
