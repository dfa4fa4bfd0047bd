"""token_price: what a token is worth at the swap venue, without buying or selling."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

from solward import (
    Manifest,
    SkillContext,
    SkillSpec,
    format_amount,
    from_units,
    hookimpl,
    read_mint,
)

_DIGITS = 6


@hookimpl
def skill_spec() -> SkillSpec:
    """Reads only."""
    return SkillSpec(
        name="token_price",
        description=(
            "Look up the price of a token in another at the swap venue. Sends nothing. Use it"
            " before a swap."
        ),
        parameters={
            "type": "object",
            "properties": {
                "token": {
                    "type": "string",
                    "description": "Mint address or symbol of the token to price.",
                    "minLength": 1,
                    "maxLength": 64,
                },
                "in": {
                    "type": "string",
                    "description": "Mint address or symbol of the token to price it in.",
                    "minLength": 1,
                    "maxLength": 64,
                    "default": "USDC",
                },
                "amount": {
                    "type": "number",
                    "description": "How much of the token; large trades get a worse price.",
                    "exclusiveMinimum": 0,
                    "default": 1,
                },
            },
            "required": ["token"],
            "additionalProperties": False,
        },
        examples=({"token": "SOL"}, {"token": "SOL", "in": "BONK", "amount": 2}),
        manifest=Manifest(operations=()),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """The price of one token at the requested amount."""
    amount = Decimal(params["amount"])
    quote = await context.quote(
        input_token=params["token"], output_token=params["in"], amount=amount
    )
    target = await read_mint(context.ledger, quote.output_mint, "in")
    received = from_units(quote.out_amount, target.decimals)
    with localcontext() as exact:
        exact.prec = _DIGITS
        price = received / amount
        impact = quote.price_impact * 100
    return (
        f"{format_amount(amount)} {_name(context, quote.input_mint)} gives"
        f" {format_amount(received)} {_name(context, quote.output_mint)}:"
        f" {format_amount(price)} each, price impact {format_amount(impact)}%."
    )


def _name(context: SkillContext, mint: str) -> str:
    return context.tokens.symbol_of(mint) or mint
