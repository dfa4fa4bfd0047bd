"""solward_plugin_template_total: how much the jar holds."""

from __future__ import annotations

from typing import Any

from solward import Manifest, SkillContext, SkillSpec, format_sol, hookimpl

from solward_plugin_template.tip import JAR


@hookimpl
def skill_spec() -> SkillSpec:
    """Declare a skill that only reads, the default: Solward would refuse a transaction from it."""
    return SkillSpec(
        name="solward_plugin_template_total",
        description="Read how much SOL the jar holds.",
        parameters={
            "type": "object",
            "properties": {
                "decimals": {
                    "type": "integer",
                    "description": "Decimals to round down to.",
                    "minimum": 0,
                    "maximum": 9,
                    "default": 4,
                },
            },
            "additionalProperties": False,
        },
        examples=({"decimals": 0}, {"decimals": 9}),
        manifest=Manifest(operations=()),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Return the jar's balance in a sentence."""
    lamports = await context.ledger.balance(JAR)
    return f"The jar holds {format_sol(lamports, params['decimals'])} SOL."
