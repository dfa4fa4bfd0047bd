"""Skills as language model vendors take them: schemas copied and trimmed, lost limits in words.

OpenAI, xAI and Anthropic take JSON Schema but for alternatives at its top. Gemini takes a part of
it: ai.google.dev/api/caching#Schema lists the fields, of which litellm 1.106.2 also drops some.
The agent validates every call against the original, so a limit that is lost here costs a cycle and
is never crossed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from solward.provider import ToolDefinition

# Refused beside `type: object` at the top of a tool's parameters, by all four vendors.
_NOT_AT_THE_TOP = frozenset({"allOf", "anyOf", "const", "enum", "not", "oneOf"})
# For validators; models need no word of them.
_UNSAID = frozenset({"$schema", "$id", "$defs", "$comment", "additionalProperties", "title"})
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
# The only formats of text Gemini takes.
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
    """The tools in OpenAI's form, which litellm translates; new lists and objects each time.

    Args:
        narrow: in Gemini's part of JSON Schema, as `narrowed` gives it.
    """
    return [_definition(tool, narrow) for tool in tools]


def _definition(tool: ToolDefinition, narrow: bool) -> dict[str, Any]:
    top: dict[str, Any] = json_safe(tool.parameters)
    lost = {name: top.pop(name) for name in sorted(_NOT_AT_THE_TOP & top.keys())}
    top = {name: value for name, value in top.items() if not name.startswith("$")}
    description = " ".join((tool.description, *_restated(lost)))
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": description,
            "parameters": narrowed(top) if narrow else top,
        },
    }


def narrowed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in Gemini's part of JSON Schema; what it cannot say is said in its description."""
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
    kept, lost = dict[str, Any](), dict[str, Any]()
    for name, value in whole.items():
        if name in _NARROW and not _beyond(name, value):
            kept[name] = value
        elif name not in _UNSAID:
            lost[name] = value
    if "properties" in kept:
        kept["properties"] = {name: narrowed(each) for name, each in kept["properties"].items()}
    if isinstance(kept.get("items"), Mapping):
        kept["items"] = narrowed(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [narrowed(each) for each in kept["anyOf"]]
    if lost:
        kept["description"] = " ".join((kept.get("description", ""), *_restated(lost))).strip()
    return kept


def json_safe(value: Any) -> Any:
    """A deep copy of JSON-like data in plain lists and objects; a Decimal becomes int or float."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {name: json_safe(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(each) for each in value]
    return value


def _beyond(name: str, value: Any) -> bool:
    if name == "enum":
        return not all(isinstance(each, str) for each in value)
    if name == "items":
        return not isinstance(value, Mapping)
    return name == "format" and value not in _FORMATS


def _restated(lost: Mapping[str, Any]) -> list[str]:
    return [f"({_words(name, value)})" for name, value in lost.items()]


def _words(name: str, value: Any) -> str:
    if name == "uniqueItems":
        return "no item twice" if value else "items may repeat"
    shown = [json.dumps(each, ensure_ascii=False) for each in value] if name == "enum" else []
    text = ", ".join(shown) or (value if isinstance(value, str) else json.dumps(value))
    return _WORDS.get(name, f"JSON Schema {name}: {{}}").replace("{}", text)
