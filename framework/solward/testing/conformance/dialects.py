"""Whether the four vendors accept a skill as a tool, with its schema trimmed for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from solward.plugins.parameters import Parameters
from solward.testing.conformance.report import Finding, Outcome, joined
from solward.types.provider import ToolDefinition
from solward.types.tools import tool_definitions


@dataclass(frozen=True, slots=True)
class Dialect:
    """One vendor's limits on a tool; its API refuses tools beyond them.

    Attributes:
        narrow: it accepts Gemini's subset of JSON Schema only.
        names: pattern of a tool's name.
        fields: pattern of a property's name.
    """

    vendor: str
    narrow: bool
    names: str
    fields: str


# platform.openai.com/docs/api-reference/chat (function.name), docs.x.ai (the same),
# docs.anthropic.com (tools: name, property keys), ai.google.dev/api (FunctionDeclaration).
DIALECTS = (
    Dialect("openai", False, r"[A-Za-z0-9_-]{1,64}", r".{1,256}"),
    Dialect("grok", False, r"[A-Za-z0-9_-]{1,64}", r".{1,256}"),
    Dialect("anthropic", False, r"[A-Za-z0-9_-]{1,64}", r"[A-Za-z0-9_.-]{1,64}"),
    Dialect("gemini", True, r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"),
)
# OpenAI refuses a longer one; it includes, in words, limits that trimming removes from the schema.
MAX_DESCRIPTION = 1_024


def check_dialects(tool: ToolDefinition, cases: Iterable[Mapping[str, Any]]) -> Finding:
    """The tool in each vendor's dialect; every case stays valid in it."""
    trouble: list[str] = []
    for dialect in DIALECTS:
        try:
            trouble += [f"{dialect.vendor}: {each}" for each in _check(dialect, tool, cases)]
        except Exception as error:
            trouble.append(f"{dialect.vendor}: {type(error).__name__}: {error}")
    if trouble:
        return Finding("dialects", Outcome.FAILED, joined(trouble))
    return Finding("dialects", Outcome.OK, ", ".join(each.vendor for each in DIALECTS))


def _check(
    dialect: Dialect, tool: ToolDefinition, cases: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    [definition] = tool_definitions([tool], narrow=dialect.narrow)
    sent = json.loads(json.dumps(definition, allow_nan=False))["function"]
    if not re.fullmatch(dialect.names, sent["name"]):
        yield f"refuses the name {sent['name']!r}"
    if len(sent["description"]) > MAX_DESCRIPTION:
        yield f"the description with its limits in words is over {MAX_DESCRIPTION} characters"
    schema = _standard(sent["parameters"])
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield f"the trimmed schema is invalid: {error.message}"
        return
    for field in _names(schema):
        if not re.fullmatch(dialect.fields, field):
            yield f"refuses the property name {field!r}"
    if dialect.narrow and any(value == "" for value in _enums(schema)):
        yield "refuses an empty text in an enum"
    accepts = Parameters(schema).accepts
    for case in cases:
        if not accepts(case):
            yield f"its trimmed schema refuses {dict(case)!r:.120}"


def _standard(schema: Any) -> Any:
    """The schema with Gemini's `nullable` as standard JSON Schema."""
    if isinstance(schema, list):
        return [_standard(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _standard(each) for name, each in schema.items() if name != "nullable"}
    if schema.get("nullable") is True:
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


def _names(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        fields = schema.get("properties", {})
        yield from fields
        inner = [*fields.values(), schema.get("items"), *schema.get("anyOf", ())]
        for each in inner:
            yield from _names(each)


def _enums(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        yield from schema.get("enum", ())
        for each in schema.values():
            yield from _enums(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _enums(each)
