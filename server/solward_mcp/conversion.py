"""Skills as MCP tools, and a tool's arguments as a skill's parameters with exact numbers.

The SDK parses JSON fractions as floats. A float whose shortest text has at most 15 digits is that
number (IEEE 754 binary64 keeps 15 decimal digits); with more digits the sent number is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast

from solward.client import Skill
from solward.resources.declare import COMPONENTS, Answer, answer_schema
from solward.resources.holds import HeldRequest
from solward.resources.transactions import Trial
from solward.types.record import KEY_FORM, is_idempotency_key
from solward_mcp.protocol import EXACT_DIGITS, IDEMPOTENCY_META, Json, too_many_digits

READ = "read"
DRY_RUN = "dry_run"

# Words of tools' names that titles write differently.
_WRITTEN = {"sol": "SOL"}

_WALLET = "wallet"
# The wallet's name for a skill that has its own parameter `wallet`.
_WALLET_ALTERNATIVE = "solward_wallet"
# Keywords about the number or names of properties: the added wallet and `dry_run` could break them.
# The service validates the skill's own parameters by them.
_PROPERTY_KEYWORDS = frozenset({"minProperties", "maxProperties", "propertyNames"})


def wallet_parameter(skill: Skill) -> str:
    """Return the name of the tool's wallet parameter."""
    return _WALLET_ALTERNATIVE if _WALLET in skill.parameters.get("properties", {}) else _WALLET


def is_text(skill: Skill, parameter: str) -> bool:
    """Return whether a parameter is text, for which the service refuses a number."""
    declared = skill.parameters.get("properties", {}).get(parameter, {})
    return bool(declared.get("type") == "string")


def tool(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    output: Mapping[str, Any],
    *,
    reads: bool,
) -> Json:
    """Return a tool definition, with the hints of MCP's specification.

    A tool that spends is destructive and not idempotent: the same call again is another payment.
    Every tool may use the ledger, so its `openWorldHint` is true.

    Args:
        schema: JSON Schema of its arguments.
        output: JSON Schema of the structured content of its results, except errors.
    """
    title = title_of(name)
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": plain(schema),
        "outputSchema": plain(output),
        "annotations": {
            # For clients that do not know a tool's `title` yet.
            "title": title,
            "readOnlyHint": reads,
            "destructiveHint": not reads,
            "idempotentHint": reads,
            "openWorldHint": True,
        },
    }


def tool_of(skill: Skill, *, one_wallet: bool, triable: bool = False) -> Json:
    """Return a skill as a tool.

    Args:
        one_wallet: whether the session is for one wallet, so that no call names it.
        triable: whether a call may ask for a dry run.
    """
    reads = skill.effects == READ
    schema = {
        name: item for name, item in skill.parameters.items() if name not in _PROPERTY_KEYWORDS
    }
    schema.setdefault("properties", {})
    if triable:
        schema = with_dry_run(schema)
    return {
        **tool(
            skill.name,
            skill.description,
            with_wallet(schema, wallet_parameter(skill), one_wallet=one_wallet),
            READ_OUTPUT if reads else spend_output(triable=triable),
            reads=reads,
        ),
        "_meta": {"solward/distribution": skill.distribution, "solward/version": skill.version},
    }


def title_of(name: str) -> str:
    """Return a tool's title for people, made from its name."""
    first, *rest = (_WRITTEN.get(word, word) for word in name.split("_"))
    return " ".join([first[:1].upper() + first[1:], *rest])


READ_OUTPUT: Final[Json] = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The answer."}},
    "required": ["text"],
}


def spend_output(done: Json | None = None, *, triable: bool) -> Json:
    """Return the schema of the answers of a tool that spends: done, held or dry run.

    Args:
        done: the fields of a finished call's answer; None if the answer is text.
    """
    text = {"text": {"type": "string", "description": "What a finished call did."}}
    states = ["done", "held", "approved", *([DRY_RUN] if triable else [])]
    return {
        "type": "object",
        "properties": {
            **(text if done is None else done),
            **output_of(HeldRequest)["properties"],
            **(output_of(Trial)["properties"] if triable else {}),
            "status": {
                "type": "string",
                "enum": states,
                "description": "`held`: nothing was sent, and a person is asked. `approved`: a"
                " person has approved it, but it is not sent yet.",
            },
        },
        "required": ["status"],
    }


def output_of(kind: type[Answer]) -> Json:
    """Return the schema of a tool's result that is an answer of the service. It is open, because
    the service may be newer, and without references, because a tool has no components."""
    return cast(Json, _inline_references(answer_schema(kind)))


def _inline_references(schema: Any) -> Any:
    match schema:
        case {"$ref": name}:
            known = COMPONENTS.get(name.rpartition("/")[2])
            return {} if known is None else output_of(known)
        case dict():
            items = [each for each in schema.items() if each != ("additionalProperties", False)]
            return {name: _inline_references(value) for name, value in items}
        case list():
            return list(map(_inline_references, schema))
        case _:
            return schema


def with_wallet(schema: Mapping[str, Any], name: str, *, one_wallet: bool) -> Json:
    """Return a schema of arguments with the wallet, under `name`, as the first; unchanged if the
    session is for one wallet."""
    if one_wallet:
        return dict(schema)
    wallet = {"type": "string", "description": "Name or id of the wallet to act on."}
    return {
        **schema,
        "properties": {name: wallet, **schema.get("properties", {})},
        "required": [name, *schema.get("required", ())],
    }


def with_dry_run(schema: Mapping[str, Any]) -> Json:
    """Return a schema of arguments with `dry_run` as the last."""
    dry_run = {
        "type": "boolean",
        "default": False,
        "description": "Say what the call would do: every limit judges it, and it is simulated."
        " Nothing is sent, reserved or recorded.",
    }
    return {**schema, "properties": {**schema.get("properties", {}), DRY_RUN: dry_run}}


def plain(value: Any) -> Any:
    """Return JSON without Decimals, which the SDK would write as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


class BadArgument(Exception):
    """An argument cannot be converted; the error's text, for the model, names it."""


def exact(value: Any, field: str, *, money: bool) -> Any:
    """Return the value with floats made exact, at any depth.

    Args:
        money: whether a number may be an amount, which must not be off by a unit.

    Raises:
        BadArgument: a number is not finite, or is an amount of more than 15 digits.
    """
    if isinstance(value, float):
        return _exact_number(value, field, money)
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


def pop_dry_run(arguments: dict[str, Any]) -> bool:
    """Remove `dry_run` from the arguments and return it; raises `BadArgument`."""
    dry_run = arguments.pop(DRY_RUN, False)
    if not isinstance(dry_run, bool):
        raise BadArgument(f"{DRY_RUN} must be true or false")
    return dry_run


def idempotency_key(meta: Mapping[str, Any] | None) -> str | None:
    """Return the caller's key from the request's `_meta`; raises `BadArgument`."""
    key = (meta or {}).get(IDEMPOTENCY_META)
    if key is None:
        return None
    if not isinstance(key, str) or not is_idempotency_key(key):
        raise BadArgument(f"_meta {IDEMPOTENCY_META} must be {KEY_FORM}; nothing was sent")
    return key


def _exact_number(value: float, field: str, money: bool) -> Decimal:
    if not math.isfinite(value):
        raise BadArgument(f"{field} must be a finite number")
    number = Decimal(repr(value))
    if money and len(number.normalize().as_tuple().digits) > EXACT_DIGITS:
        raise BadArgument(too_many_digits(field))
    return number
