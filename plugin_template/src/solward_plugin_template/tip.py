"""solward_plugin_template: send a small tip to the jar."""

from __future__ import annotations

from typing import Any

from solward import (
    Effects,
    Manifest,
    SkillContext,
    SkillSpec,
    TransactionStatus,
    format_amount,
    hookimpl,
)

# Where tips go: put an address of your own here.
JAR = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


@hookimpl
def skill_spec() -> SkillSpec:
    """Declare a skill that spends SOL, within the limits of its schema and of the wallet."""
    return SkillSpec(
        name="solward_plugin_template",
        description="Send a small tip in SOL to the jar. Use it at most once in a while.",
        parameters={
            "type": "object",
            "properties": {
                "amount": {
                    "type": "number",
                    "description": "Amount in SOL, at most 9 decimals.",
                    "minimum": 0.001,
                    "maximum": 0.1,
                    "default": 0.01,
                },
            },
            "additionalProperties": False,
        },
        effects=Effects.SPEND,
        examples=({"amount": 0.02},),
        manifest=Manifest(operations=("transfer",), assets=("SOL",)),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say what was tipped; a refusal by a guardrail passes as it is."""
    record = await context.transfer(to=JAR, amount=params["amount"])
    outcome = f"Tipped {format_amount(params['amount'])} SOL. Signature: {record.signature}."
    if record.status is TransactionStatus.CONFIRMED:
        return outcome
    return f"{outcome} It is {record.status}: do not send it again."
