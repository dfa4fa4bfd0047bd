"""Skills as MCP tools, and a tool's arguments as a skill's parameters with exact numbers.

The SDK parses JSON fractions as floats. A float whose shortest text has at most 15 digits is that
number (IEEE 754 binary64 keeps 15 decimal digits); with more digits the sent number is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import mcp_types as types

from solward.client import Skill

READ = "read"

_WALLET = "wallet"
# For a skill that has a parameter `wallet`.
_WALLET_ALTERNATIVE = "solward_wallet"
# Keywords about the number or names of properties: the wallet is one more property. The service
# validates the skill's own parameters by them.
_PROPERTY_KEYWORDS = frozenset({"minProperties", "maxProperties", "propertyNames"})
_EXACT_DIGITS = 15
_MAX_KEY = 255

IDEMPOTENCY_META = "solward/idempotencyKey"


def wallet_parameter(skill: Skill) -> str:
    """The name of the tool's wallet parameter."""
    return _WALLET_ALTERNATIVE if _WALLET in skill.parameters.get("properties", {}) else _WALLET


def is_text(skill: Skill, parameter: str) -> bool:
    """Whether a parameter is text: the service refuses a number there."""
    declared = skill.parameters.get("properties", {}).get(parameter, {})
    return bool(declared.get("type") == "string")


def tool_of(skill: Skill, *, one_wallet: bool) -> types.Tool:
    """A skill as a tool; the wallet is optional where the session is for one wallet."""
    return types.Tool(
        name=skill.name,
        description=skill.description,
        input_schema=_input_schema(skill, one_wallet),
        annotations=_annotations(skill),
        _meta={"solward/distribution": skill.distribution, "solward/version": skill.version},
    )


def _input_schema(skill: Skill, one_wallet: bool) -> dict[str, Any]:
    schema = {
        name: item for name, item in skill.parameters.items() if name not in _PROPERTY_KEYWORDS
    }
    wallet = wallet_parameter(skill)
    described = {
        "type": "string",
        "description": "Name or id of the wallet to act on."
        + (" This session acts on one wallet, which is taken when none is named." * one_wallet),
    }
    schema["properties"] = {wallet: described, **schema.get("properties", {})}
    if not one_wallet:
        schema["required"] = [wallet, *schema.get("required", ())]
    sent: dict[str, Any] = plain(schema)
    return sent


def _annotations(skill: Skill) -> types.ToolAnnotations:
    """Hints by the specification.

    A skill that spends is destructive, and not idempotent. Every skill may call the ledger, so the
    world is open.
    """
    read = skill.effects == READ
    return types.ToolAnnotations(
        read_only_hint=read,
        destructive_hint=not read,
        idempotent_hint=False,
        open_world_hint=True,
    )


def plain(value: Any) -> Any:
    """JSON without Decimals, which the SDK would write as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


class BadArgument(Exception):
    """An argument cannot be converted; the text names it, for the model."""


def exact(value: Any, field: str, *, money: bool) -> Any:
    """The value with floats made exact, at any depth.

    Args:
        money: whether a number may be an amount, which must not be off by a unit.

    Raises:
        BadArgument: a number is not finite, or is an amount of more than 15 digits.
    """
    if isinstance(value, float):
        return _number(value, field, money)
    if isinstance(value, Mapping):
        return {
            name: exact(item, f"{field}.{name}" if field else name, money=money)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [exact(item, f"{field}[{at}]", money=money) for at, item in enumerate(value)]
    return value


def pop_wallet(arguments: dict[str, Any], name: str) -> str | None:
    """Remove the wallet from the arguments and return it; raises `BadArgument`."""
    wallet = arguments.pop(name, None)
    if wallet is not None and (not isinstance(wallet, str) or not wallet):
        raise BadArgument(f"{name} must be a string: the name or id of a wallet")
    return wallet


def idempotency_key(meta: Mapping[str, Any] | None) -> str | None:
    """The caller's key from the request's `_meta`; raises `BadArgument`."""
    key = (meta or {}).get(IDEMPOTENCY_META)
    if key is None:
        return None
    fits = isinstance(key, str) and 1 <= len(key) <= _MAX_KEY
    if not fits or not key.isascii() or not key.isprintable():
        raise BadArgument(
            f"_meta {IDEMPOTENCY_META} must be 1 to {_MAX_KEY} visible ASCII characters"
        )
    assert isinstance(key, str)
    return key


def _number(value: float, field: str, money: bool) -> Decimal:
    if not math.isfinite(value):
        raise BadArgument(f"{field} must be a finite number")
    number = Decimal(repr(value))
    if money and len(number.normalize().as_tuple().digits) > _EXACT_DIGITS:
        raise BadArgument(
            f"{field} must have at most {_EXACT_DIGITS} digits: JSON numbers of MCP carry no more "
            "exactly"
        )
    return number
