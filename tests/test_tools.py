"""Skills' schemas as the vendors take them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from solward import ToolDefinition, tool_definitions
from solward.plugins import load_registry
from solward.types.skill import narrowed


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "number", "exclusiveMinimum": 0, "description": "SOL."},
            {"type": "number", "description": "SOL. (more than 0)"},
        ),
        (
            {"type": "number", "exclusiveMaximum": 5, "maximum": 4},
            {"type": "number", "maximum": 4, "description": "(less than 5)"},
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            {"type": "integer", "description": "(one of 1, 2)"},
        ),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "const": 3}, {"type": "integer", "description": "(always 3)"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        (
            {"oneOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
            {
                "anyOf": [
                    {"type": "string", "description": "(in the format uri)"},
                    {"type": "null"},
                ]
            },
        ),
        (
            {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 1}},
            {"type": "array", "items": {"type": "integer", "description": "(more than 1)"}},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}, "description": "(no item twice)"},
        ),
        (
            {"$schema": "x", "type": "object", "properties": {}, "additionalProperties": False},
            {"type": "object", "properties": {}},
        ),
        (
            {"type": "object", "propertyNames": {"maxLength": 3}},
            {
                "type": "object",
                "description": '(JSON Schema propertyNames: {"maxLength": 3})',
            },
        ),
    ],
)
def test_what_gemini_cannot_check_is_said_in_words(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert narrowed(schema) == expected


def test_every_limit_of_the_built_in_skills_survives_as_keyword_or_in_words() -> None:
    tools = load_registry(["solward"]).tools()
    for tool, sent in zip(tools, tool_definitions(tools, narrow=True), strict=True):
        fields = sent["function"]["parameters"]["properties"]
        for name, field in tool.parameters.get("properties", {}).items():
            for keyword in ("exclusiveMinimum", "minimum", "maximum", "minLength", "maxLength"):
                if keyword in field:
                    said = fields[name].get("description", "")
                    assert keyword in fields[name] or f"more than {field[keyword]}" in said


@pytest.mark.parametrize("narrow", [False, True])
def test_alternatives_at_the_top_are_told_in_the_description(narrow: bool) -> None:
    parameters = {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}
    [sent] = tool_definitions([ToolDefinition("t", "Does.", parameters)], narrow=narrow)
    assert sent["function"]["parameters"] == {"type": "object", "properties": {}}
    assert sent["function"]["description"] == ('Does. (JSON Schema anyOf: [{"required": ["a"]}])')


def test_definitions_share_nothing_with_the_skills_and_hold_plain_numbers() -> None:
    parameters = {"type": "object", "properties": {"a": {"maximum": Decimal("0.5")}}}
    tool = ToolDefinition("t", "Does.", parameters)
    [first], [second] = (
        tool_definitions([tool], narrow=False),
        tool_definitions([tool], narrow=False),
    )
    sent = first["function"]["parameters"]
    assert type(sent["properties"]["a"]["maximum"]) is float
    sent["properties"].clear()
    assert second["function"]["parameters"]["properties"]
    assert parameters["properties"] == {"a": {"maximum": Decimal("0.5")}}


def test_a_tool_is_written_once_however_often_it_is_sent() -> None:
    class Read(dict[str, Any]):
        times = 0

        def items(self) -> Any:
            Read.times += 1
            return super().items()

    tool = ToolDefinition("t", "Does.", Read(type="object", properties={}))
    once = tool_definitions([tool])
    times = Read.times
    assert times > 0
    assert [tool_definitions([tool]) for _ in range(3)] == [once] * 3
    assert Read.times == times
    assert tool_definitions([tool], narrow=True) == once
    assert Read.times > times
