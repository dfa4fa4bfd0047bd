"""token_info: what a token is, and how much of it the wallet holds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from solward import (
    WRAPPED_SOL_MINT,
    Balances,
    Mint,
    SkillContext,
    SkillSpec,
    format_amount,
    format_sol,
    from_units,
    hookimpl,
    read_mint,
)


@hookimpl
def skill_spec() -> SkillSpec:
    """Reads only."""
    return SkillSpec(
        name="token_info",
        description=(
            "Look a token up on the ledger: its program, decimals, supply, who may mint or freeze"
            " it, and what the wallet holds of it."
        ),
        parameters={
            "type": "object",
            "properties": {
                "token": {
                    "type": "string",
                    "description": "Mint address, or a symbol known on this network such as USDC.",
                    "minLength": 1,
                    "maxLength": 64,
                },
            },
            "required": ["token"],
            "additionalProperties": False,
        },
        examples=({"token": "USDC"},),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """One fact a line."""
    address = context.tokens.resolve(params["token"], "token")
    mint = await read_mint(context.ledger, address, "token")
    balances = await context.balances()
    held = [token.ui for token in balances.tokens if token.mint == address]
    lines = [
        f"Token: {_title(mint, context)}",
        f"Mint: {mint.address}",
        f"Program: {mint.program_name}",
        f"Decimals: {mint.decimals}",
        f"Supply: {format_amount(from_units(mint.supply, mint.decimals))}",
        f"Mint authority: {mint.mint_authority or 'none (the supply is fixed)'}",
        f"Freeze authority: {mint.freeze_authority or 'none'}",
        f"Wallet holds: {format_amount(sum(held, Decimal(0)))}",
    ]
    return "\n".join([*lines, *_wrapped_sol(address, balances)])


def _title(mint: Mint, context: SkillContext) -> str:
    listed = context.tokens.symbol_of(mint.address)
    if listed is not None:
        return listed
    if mint.symbol is None:
        return "unknown symbol"
    # Anybody can write any symbol into a mint's own metadata.
    title = f"calls itself {mint.symbol}" + (f" ({mint.name})" if mint.name else "")
    real = context.tokens.alike(mint.symbol)
    if real is None:
        return title
    return f"{title}, and is NOT {real.symbol}, whose mint is {real.mint}"


def _wrapped_sol(address: str, balances: Balances) -> list[str]:
    if address != WRAPPED_SOL_MINT:
        return []
    return [f"This is wrapped SOL; natively the wallet has {format_sol(balances.lamports, 4)} SOL."]
