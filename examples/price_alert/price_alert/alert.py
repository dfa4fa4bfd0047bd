"""price_alert: say that a price crossed a bound, once each time it does."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from solward import (
    InvalidRequest,
    Manifest,
    SkillContext,
    SkillSpec,
    format_amount,
    from_units,
    hookimpl,
    read_mint,
)

_TOKEN = {"type": "string", "minLength": 1, "maxLength": 64}
_PRICE = {"type": "number", "exclusiveMinimum": 0}


@hookimpl
def skill_spec() -> SkillSpec:
    """Reads only; what it keeps is its own."""
    return SkillSpec(
        name="price_alert",
        description=(
            "Watch the price of a token: answers ALERT once when it has left the bounds, and once"
            " when it is back within. Call it again and again, or on a schedule. Sends nothing."
        ),
        parameters={
            "type": "object",
            "properties": {
                "token": {**_TOKEN, "description": "Mint address or symbol of what to watch."},
                "in": {
                    **_TOKEN,
                    "description": "Mint address or symbol of what its price is in.",
                    "default": "USDC",
                },
                "above": {**_PRICE, "description": "Alert where one costs more than this."},
                "below": {**_PRICE, "description": "Alert where one costs less than this."},
            },
            "required": ["token"],
            "additionalProperties": False,
        },
        examples=({"token": "SOL", "above": 1, "below": Decimal("0.5")},),
        manifest=Manifest(operations=()),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Compare with the bounds, and with what was said last."""
    above, below = params.get("above"), params.get("below")
    if above is None and below is None:
        raise InvalidRequest("above or below must be given")
    quote = await context.quote(input_token=params["token"], output_token=params["in"], amount=1)
    target = await read_mint(context.ledger, quote.output_mint, "in")
    price = from_units(quote.out_amount, target.decimals)
    side = "within"
    if above is not None and price > Decimal(above):
        side = "above"
    elif below is not None and price < Decimal(below):
        side = "below"
    # Other bounds are another alert.
    key = f"{quote.input_mint}/{quote.output_mint}/{above}/{below}"
    last = await context.store.get(key)
    said = f"one {params['token']} costs {format_amount(price)} {params['in']}"
    if side == (last.value["side"] if last else "within"):
        return f"Nothing new: {said}, {_where(side, params)}."
    # Of two calls at once one alerts: the other's version is old, and it fails with store_changed.
    await context.store.put(
        key, {"side": side, "price": price}, version=last.version if last else 0
    )
    return f"ALERT: {said}, {_where(side, params)}."


def _where(side: str, params: dict[str, Any]) -> str:
    if side == "within":
        return "within the bounds"
    return f"{side} {format_amount(Decimal(params[side]))}"
