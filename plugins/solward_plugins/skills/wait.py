"""wait: deliberately do nothing."""

from __future__ import annotations

from typing import Any

from solward import SkillSpec, hookimpl


@hookimpl
def skill_spec() -> SkillSpec:
    """Does nothing."""
    return SkillSpec(
        name="wait",
        description="Do nothing this cycle. Use it when no action is clearly better than waiting.",
        parameters={
            "type": "object",
            "properties": {
                "reason": {
                    "type": "string",
                    "description": "Why waiting is best now.",
                    "maxLength": 1000,
                },
            },
            "additionalProperties": False,
        },
        timeout_s=5.0,
        examples=({}, {"reason": "The price is falling."}),
    )


@hookimpl
async def skill_execute(params: dict[str, Any]) -> str:
    """Repeat the reason, so that the memory holds it."""
    reason = params.get("reason", "").strip()
    return f"Waited: {reason}" if reason else "Waited: no action this cycle."
