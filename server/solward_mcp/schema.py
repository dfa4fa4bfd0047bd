"""A skill's declaration as an MCP tool."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import mcp_types as types

from solward.client import Skill

READ = "read"

_WALLET = "wallet"
# For a skill whose own parameter has that name.
_WALLET_OTHERWISE = "solward_wallet"
# They count or check names, and the wallet is one more; the service holds the skill's own
# parameters to them.
_COUNTING = frozenset({"minProperties", "maxProperties", "propertyNames"})


def wallet_parameter(skill: Skill) -> str:
    """The name under which a tool takes the wallet."""
    return _WALLET_OTHERWISE if _WALLET in skill.parameters.get("properties", {}) else _WALLET


def takes_text(skill: Skill, parameter: str) -> bool:
    """Whether a parameter is text, so that the service will refuse a number there."""
    declared = skill.parameters.get("properties", {}).get(parameter, {})
    return bool(declared.get("type") == "string")


def tool_of(skill: Skill, *, one_wallet: bool) -> types.Tool:
    """A skill as a tool; where the session is for one wallet, naming it is optional."""
    return types.Tool(
        name=skill.name,
        description=skill.description,
        input_schema=_input_schema(skill, one_wallet),
        annotations=_annotations(skill),
        _meta={"solward/distribution": skill.distribution, "solward/version": skill.version},
    )


def _input_schema(skill: Skill, one_wallet: bool) -> dict[str, Any]:
    schema = {name: item for name, item in skill.parameters.items() if name not in _COUNTING}
    wallet = wallet_parameter(skill)
    described = {
        "type": "string",
        "description": "Name or id of the wallet to act on."
        + (" This session acts on one wallet, which is taken when none is named." * one_wallet),
    }
    schema["properties"] = {wallet: described, **schema.get("properties", {})}
    if not one_wallet:
        schema["required"] = [wallet, *schema.get("required", ())]
    plain: dict[str, Any] = _plain(schema)
    return plain


def _annotations(skill: Skill) -> types.ToolAnnotations:
    """Hints as the specification means them.

    A skill that may spend moves value away for good, and twice does it twice. Every skill may
    speak with the ledger, which is the world's.
    """
    read = skill.effects == READ
    return types.ToolAnnotations(
        read_only_hint=read,
        destructive_hint=not read,
        idempotent_hint=False,
        open_world_hint=True,
    )


def _plain(value: Any) -> Any:
    """JSON for the SDK, which would write a Decimal as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
