"""mint_supply: make more of a token whose mint authority the wallet is."""

from __future__ import annotations

from typing import Any

from solward import (
    Effects,
    LedgerError,
    SkillContext,
    SkillSpec,
    format_amount,
    from_units,
    hookimpl,
    operation_parameters,
    read_mint,
)
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the fee, and rent where the wallet has no account of the token yet."""
    return SkillSpec(
        name="mint_supply",
        description=(
            "Mint more of a token to the wallet. Works only where the wallet is the token's mint"
            " authority, as it is of a token it launched."
        ),
        parameters=operation_parameters("mint_supply"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say what was minted, to which account, the signature, and the supply there is now."""
    record = await context.mint_supply(
        mint=params["mint"], amount=params["amount"], decimals=params.get("decimals")
    )
    details = record.details
    mint = details["mint"]
    what = f"{format_amount(details['amount'])} of {context.tokens.symbol_of(mint) or mint}"
    account = f"to the wallet's token account {details['account']}."
    told = tell(record, f"Minted {what} {account}", f"the minting of {what} {account}")
    return f"{told}{await _supply(context, mint)}"


async def _supply(context: SkillContext, address: str) -> str:
    # It is minted: a ledger that does not answer now must not make this a failure.
    try:
        mint = await read_mint(context.ledger, address)
    except LedgerError:
        return ""
    return f" Supply now: {format_amount(from_units(mint.supply, mint.decimals))}."
