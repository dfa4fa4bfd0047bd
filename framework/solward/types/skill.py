"""A skill's declaration, and its tool definition for language model vendors, whose simpler schemas
state the lost limits in words.

OpenAI, xAI and Anthropic accept JSON Schema except alternatives at its top. Gemini accepts a
subset: ai.google.dev/api/caching#Schema lists the fields, of which litellm 1.106.2 also drops some.
The agent validates every call against the original schema, so a call beyond a lost limit wastes a
cycle but never runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta

from solward.types.bounds import Name
from solward.types.manifest import Manifest
from solward.types.provider import ToolDefinition


class Effects(StrEnum):
    """A skill's effects: whether it may request transactions."""

    READ = "read"
    """The skill only reads; its transactions are refused."""
    SPEND = "spend"
    """The skill may request transactions; each must pass every guardrail."""


@dataclass(frozen=True, slots=True)
class SkillSpec:
    """A skill's declaration, returned by its `skill_spec` hook.

    Attributes:
        name: equal to the entry point's name; `[a-z][a-z0-9_]{0,63}`.
        description: for the model: the skill's purpose and use. At most 1,024 characters.
        parameters: JSON Schema 2020-12 of an object with `additionalProperties: false`.
        effects: READ or SPEND.
        timeout_s: seconds before the skill is cancelled; 0 < timeout_s <= 600.
        examples: parameters that work on a new test wallet that holds 10 SOL, each valid by
            `parameters`. The conformance kit runs them; they need no preparation.
        manifest: its needs in addition to its wallet; None: no network, no storage, no secrets.
        settings: JSON Schema, like `parameters`, of the operator's settings for it; None if it has
            none. A string property with `secret: true` is stored encrypted and never shown.
    """

    name: Name
    description: str
    parameters: Mapping[str, Any]
    effects: Effects = Effects.READ
    timeout_s: float = 60.0
    examples: Annotated[tuple[Mapping[str, Any], ...], Meta(max_length=64)] = ()
    manifest: Manifest | None = None
    settings: Mapping[str, Any] | None = None


# All four vendors refuse these keywords at the top level of a tool's parameters.
_NOT_AT_THE_TOP = frozenset({"allOf", "anyOf", "const", "enum", "not", "oneOf"})
# Only validators need these keywords, so descriptions do not restate them.
_DROPPED = frozenset({"$schema", "$id", "$defs", "$comment", "additionalProperties", "title"})
_NARROW = frozenset(
    {
        "anyOf",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
    }
)
# The only text formats Gemini accepts.
_FORMATS = frozenset({"date-time", "enum"})
_WORDS = {
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "const": "always {}",
    "enum": "one of {}",
    "format": "in the format {}",
    "minProperties": "at least {} fields",
    "maxProperties": "at most {} fields",
}


def tool_definitions(
    tools: Iterable[ToolDefinition], *, narrow: bool = False
) -> list[dict[str, Any]]:
    """Return new tool definitions in OpenAI's form, which litellm translates.

    Args:
        narrow: whether to use Gemini's subset of JSON Schema, see `narrowed`.
    """
    texts = ",".join(_definition_json(tool, narrow) for tool in tools)
    made: list[dict[str, Any]] = json.loads(f"[{texts}]")
    return made


_MOST_TEXTS: Final = 1_024
# Tools are compared by identity; this is safe because the cache keeps each tool with its text.
_texts: Final[dict[tuple[int, bool], tuple[ToolDefinition, str]]] = {}


def _definition_json(tool: ToolDefinition, narrow: bool) -> str:
    """Return a tool's definition as JSON; it is cached, because each cycle sends it again."""
    found = _texts.get((id(tool), narrow))
    if found is None:
        found = (tool, json.dumps(_make_definition(tool, narrow)))
        if len(_texts) >= _MOST_TEXTS:
            _texts.clear()
        _texts[id(tool), narrow] = found
    return found[1]


def _make_definition(tool: ToolDefinition, narrow: bool) -> dict[str, Any]:
    top: dict[str, Any] = json_safe(tool.parameters)
    lost = {name: top.pop(name) for name in sorted(_NOT_AT_THE_TOP & top.keys())}
    top = {name: value for name, value in top.items() if not name.startswith("$")}
    description = " ".join((tool.description, *_limits(lost)))
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": description,
            "parameters": narrowed(top) if narrow else top,
        },
    }


def narrowed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in Gemini's subset of JSON Schema; the description states the lost limits."""
    whole = dict(schema)
    if "oneOf" in whole and "anyOf" not in whole:
        whole["anyOf"] = whole.pop("oneOf")
    kinds = whole.get("type")
    if isinstance(kinds, list):
        del whole["type"]
        named = [kind for kind in kinds if kind != "null"]
        if len(named) == 1:
            whole["type"] = named[0]
        elif "anyOf" not in whole:
            whole["anyOf"] = [{"type": kind} for kind in named]
        if "null" in kinds:
            whole["nullable"] = True
    if isinstance(whole.get("const"), str):
        whole["enum"] = [whole.pop("const")]
    narrow, lost = dict[str, Any](), dict[str, Any]()
    for name, value in whole.items():
        if name in _NARROW and not _exceeds_subset(name, value):
            narrow[name] = value
        elif name not in _DROPPED:
            lost[name] = value
    if "properties" in narrow:
        narrow["properties"] = {name: narrowed(each) for name, each in narrow["properties"].items()}
    if isinstance(narrow.get("items"), Mapping):
        narrow["items"] = narrowed(narrow["items"])
    if "anyOf" in narrow:
        narrow["anyOf"] = [narrowed(each) for each in narrow["anyOf"]]
    if lost:
        narrow["description"] = " ".join((narrow.get("description", ""), *_limits(lost))).strip()
    return narrow


def json_safe(value: Any) -> Any:
    """Return a deep copy of JSON-like data in lists and dicts; a Decimal becomes int or float."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {name: json_safe(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(each) for each in value]
    return value


def _exceeds_subset(name: str, value: Any) -> bool:
    if name == "enum":
        return not all(isinstance(each, str) for each in value)
    if name == "items":
        return not isinstance(value, Mapping)
    return name == "format" and value not in _FORMATS


def _limits(lost: Mapping[str, Any]) -> list[str]:
    return [f"({_limit_words(name, value)})" for name, value in lost.items()]


def _limit_words(name: str, value: Any) -> str:
    if name == "uniqueItems":
        return "no item twice" if value else "items may repeat"
    shown = [json.dumps(each, ensure_ascii=False) for each in value] if name == "enum" else []
    text = ", ".join(shown) or (value if isinstance(value, str) else json.dumps(value))
    return _WORDS.get(name, f"JSON Schema {name}: {{}}").replace("{}", text)
