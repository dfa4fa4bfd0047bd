"""dca: buy a token for a fixed amount, at most once in each period, whatever happens in between."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

from solward import (
    Effects,
    Manifest,
    Put,
    SkillContext,
    SkillError,
    SkillSpec,
    TransactionRecord,
    TransactionStatus,
    format_amount,
    hookimpl,
)

_TOKEN = {"type": "string", "minLength": 1, "maxLength": 64}


@hookimpl
def skill_spec() -> SkillSpec:
    """Swaps, and nothing else."""
    return SkillSpec(
        name="dca",
        description=(
            "Buy a token for a fixed amount of another, at most once in each period. Call it as"
            " often as you like: what was bought in the period already is not bought again."
        ),
        parameters={
            "type": "object",
            "properties": {
                "buy": {**_TOKEN, "description": "Mint address or symbol of the token to buy."},
                "spend": {
                    **_TOKEN,
                    "description": "Mint address or symbol of what to pay with.",
                    "default": "SOL",
                },
                "amount": {
                    "type": "number",
                    "description": "How much of it to spend in a period.",
                    "exclusiveMinimum": 0,
                },
                "everyHours": {
                    "type": "integer",
                    "description": "The length of a period; periods begin at midnight UTC of"
                    " 1 January 1970, so one of 24 hours is a day.",
                    "minimum": 1,
                    "maximum": 8_784,
                    "default": 24,
                },
            },
            "required": ["buy", "amount"],
            "additionalProperties": False,
        },
        effects=Effects.SPEND,
        timeout_s=90,
        examples=({"buy": "USDC", "amount": Decimal("0.1")},),
        manifest=Manifest(operations=("swap",)),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Buy, unless this period's purchase is remembered and may have landed."""
    buy, spend, hours = params["buy"], params["spend"], params["everyHours"]
    period = int(time.time()) // (hours * 3_600)
    # One plan each: by the mints, because a symbol is one of several names.
    mints = [context.tokens.resolve(each, name) for name, each in (("buy", buy), ("spend", spend))]
    key = f"{'/'.join(mints)}/{hours}h"
    last = await context.store.get(key)
    # A purchase that failed bought nothing and never will, so the period has none yet.
    if last is not None and last.value["period"] >= period and not last.failed:
        return f"Bought {buy} for this period already (transaction {last.transaction_id})."
    try:
        record = await context.swap(
            input_token=spend,
            output_token=buy,
            amount=params["amount"],
            # Of two calls at once one finds the entry changed, and buys nothing.
            remember=Put(key, {"period": period}, version=last.version if last else 0),
        )
    except SkillError as error:
        if error.code != "store_changed":
            raise
        return f"Another call buys {buy} for this period just now."
    return f"{_outcome(record, params)} {await _so_far(context, mints[0])}"


def _outcome(record: TransactionRecord, params: dict[str, Any]) -> str:
    spent = f"{format_amount(Decimal(params['amount']))} {params['spend']}"
    if record.status is TransactionStatus.PENDING:
        return f"The purchase of {params['buy']} for {spent} is sent and not confirmed yet."
    received = format_amount(Decimal(record.details["outputAmount"]))
    return f"Bought {received} {params['buy']} for {spent}."


async def _so_far(context: SkillContext, mint: str) -> str:
    """What the latest purchases brought, by the wallet's own records."""
    swaps = await context.history(type="swap", status="confirmed", limit=100)
    bought = [each for each in swaps if each.details.get("outputToken") == mint]
    return f"Purchases so far: {len(bought)}{'' if len(swaps) < 100 else ' or more'}."
