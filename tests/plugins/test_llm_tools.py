"""Skills' schemas in the part of JSON Schema that Gemini takes, and counted tokens in dollars."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from tests.plugins.llm_support import VENDORS, registry

from solward import ToolDefinition, Usage
from solward_plugins.llm.tools import definitions, narrowed
from solward_plugins.llm.usage import usage_of


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
    for tool, sent in zip(
        registry().tools(), definitions(registry().tools(), narrow=True), strict=True
    ):
        fields = sent["function"]["parameters"]["properties"]
        for name, field in tool.parameters.get("properties", {}).items():
            for keyword in ("exclusiveMinimum", "minimum", "maximum", "minLength", "maxLength"):
                if keyword in field:
                    said = fields[name].get("description", "")
                    assert keyword in fields[name] or f"more than {field[keyword]}" in said


@pytest.mark.parametrize("narrow", [False, True])
def test_alternatives_at_the_top_are_told_in_the_description(narrow: bool) -> None:
    parameters = {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}
    [sent] = definitions([ToolDefinition("t", "Does.", parameters)], narrow=narrow)
    assert sent["function"]["parameters"] == {"type": "object", "properties": {}}
    assert sent["function"]["description"] == ('Does. (JSON Schema anyOf: [{"required": ["a"]}])')


def test_definitions_share_nothing_with_the_skills_and_hold_plain_numbers() -> None:
    parameters = {"type": "object", "properties": {"a": {"maximum": Decimal("0.5")}}}
    tool = ToolDefinition("t", "Does.", parameters)
    [first], [second] = definitions([tool], narrow=False), definitions([tool], narrow=False)
    sent = first["function"]["parameters"]
    assert type(sent["properties"]["a"]["maximum"]) is float
    sent["properties"].clear()
    assert second["function"]["parameters"]["properties"]
    assert parameters["properties"] == {"a": {"maximum": Decimal("0.5")}}


PRICES = {
    "m": {
        "litellm_provider": "openai",
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
    },
    "free": {"litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 0},
    "half": {"litellm_provider": "openai", "input_cost_per_token": 1e-06},
    "third": {
        "litellm_provider": "openai",
        "input_cost_per_token": 3e-10,
        "output_cost_per_token": 0.0,
    },
    "other": {
        "litellm_provider": "azure",
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 1e-06,
    },
}


@pytest.mark.parametrize(
    ("model", "asked", "cached", "said", "total", "expected"),
    [
        ("m", 1_000, 0, 10, 1_010, Usage(1_000, 10, 1_350_000)),
        ("m", 1_000, 800, 10, 1_010, Usage(1_000, 10, 450_000)),
        # xAI leaves its reasoning out of the completion's tokens.
        ("m", 1_000, 0, 10, 1_110, Usage(1_000, 110, 2_350_000)),
        ("m", 200_001, 0, 10, 0, Usage(200_001, 10, 500_152_500)),
        ("free", 5, 0, 5, 10, Usage(5, 5, 0)),
        ("third", 1, 0, 1, 2, Usage(1, 1, 1)),
        ("half", 5, 0, 5, 10, Usage(5, 5, None)),
        ("other", 5, 0, 5, 10, Usage(5, 5, None)),
        ("unknown", 5, 0, 5, 10, Usage(5, 5, None)),
        ("m", 0, 0, 0, 0, None),
    ],
)
def test_the_price_is_exact_and_of_the_right_list(
    model: str, asked: int, cached: int, said: int, total: int, expected: Usage | None
) -> None:
    counted = SimpleNamespace(
        prompt_tokens=asked,
        completion_tokens=said,
        total_tokens=total,
        prompt_tokens_details=SimpleNamespace(cached_tokens=cached),
    )
    usage = usage_of(VENDORS["openai"], model, counted, PRICES)
    assert usage == expected
    assert usage is None or isinstance(usage.cost_nanousd, int | None)


def test_a_vendor_that_counts_nothing_has_no_usage() -> None:
    assert usage_of(VENDORS["openai"], "m", None, PRICES) is None
