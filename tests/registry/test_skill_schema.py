from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support.clock import processor_cost

from solward.plugins.parameters import Parameters
from solward.plugins.schema import check_examples_cheap, checked_schema
from solward.types.errors import InvalidRequest
from solward.types.manifest import Rejected

POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}},
    "required": ["x"],
    "additionalProperties": False,
}


def closed(field: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"f": field}, "additionalProperties": False, **more}


def test_a_local_reference_is_written_out() -> None:
    schema = closed(
        {"$ref": "#/$defs/Point", "description": "where"},
        **{"$defs": {"Point": POINT}, "$schema": "https://json-schema.org/draft/2020-12/schema"},
    )
    found = checked_schema(schema)
    assert found == closed({**POINT, "description": "where"})
    assert "$defs" in schema


def test_the_copy_does_not_change_with_the_plugins_own() -> None:
    field: dict[str, Any] = {"type": "string"}
    found = checked_schema(closed(field))
    field["type"] = "null"
    assert found["properties"]["f"] == {"type": "string"}


def test_each_check_of_a_schema_gives_a_copy_of_its_own() -> None:
    schema = closed({"type": "integer", "default": 1})
    checked_schema(schema)["properties"]["f"]["type"] = "string"
    assert checked_schema(schema) == schema
    # These two are equal and not the same schema.
    assert type(checked_schema(closed({"const": True}))["properties"]["f"]["const"]) is bool
    assert type(checked_schema(closed({"const": 1}))["properties"]["f"]["const"]) is int


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("x", "schema: must be an object"),
        ({"type": "string"}, 'type: must be "object" at the top level'),
        ({"type": ["object", "null"]}, 'type: must be "object"'),
        ({"type": "object"}, "schema: an object must have additionalProperties: false"),
        (closed({"type": "object"}), "properties/f: an object must have additionalProp"),
        (closed({"type": ["null", "object"]}), "properties/f: an object must have"),
        (
            closed({"type": "array", "items": {"type": "object"}}),
            "properties/f/items: an object must have",
        ),
        (
            closed({"anyOf": [{"type": "null"}, {"type": "object"}]}),
            "properties/f/anyOf/1: an object must have",
        ),
        (closed({}), "properties/f: has no type, so it accepts anything"),
        (
            closed({"type": "nummer"}),
            "properties/f/type: must be one or several of array, boolean, integer, null, number,"
            " object, string; got 'nummer'",
        ),
        ({"type": "nummer"}, "type: must be one or several of array, "),
        (closed(True), "properties/f: must be a schema, not true or false"),
        (closed({"anyOf": [{"type": "null"}, {}]}), "properties/f/anyOf/1: has no type"),
        (closed({"type": "array"}), "properties/f: an array must have items"),
        (closed({"type": "array", "items": True}), "properties/f/items: must be a schema"),
        (closed({"type": "number", "multipleOf": 0.1}), "properties/f/multipleOf: cannot be"),
        (
            closed({"type": "number", "not": {"multipleOf": 2}}),
            "properties/f/not/multipleOf: cannot be",
        ),
        (closed({"$ref": "https://example.com/s.json"}), "properties/f/$ref: must refer to"),
        (closed({"$ref": "#/properties/f"}), "properties/f/$ref: must refer to"),
        (closed({"$ref": "#/$defs/Gone"}), "properties/f/$ref: must refer to"),
        (
            closed({"$ref": "#/$defs/A", "minimum": 1}, **{"$defs": {"A": {"type": "number"}}}),
            "properties/f: only annotations",
        ),
        (
            closed({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}}),
            "is too large, nested too deep, or refers to itself",
        ),
        (
            closed({"type": "string", "$id": "https://example.com"}),
            "properties/f/$id: is not supported",
        ),
        (closed({"type": "nonsense"}), "properties/f/type: must be one or several of"),
        (closed({"type": "string", "pattern": "("}), "properties/f/pattern: "),
        (closed({"type": "string", "minLength": -1}), "properties/f/minLength: "),
        (closed({"type": "string"}, required="f"), "required: "),
        (closed({"type": "number", "minimum": float("inf")}), "must be a finite number"),
        (closed({"enum": [{1, 2}]}), "contains a value that is not JSON"),
        (closed({"type": "string", "default": 1}), "properties/f/default: does not fit"),
        (closed({**POINT, "default": {}}), "properties/f/default: does not fit"),
        ({**POINT, "$schema": "http://json-schema.org/draft-07/schema#"}, "$schema: must be"),
    ],
)
def test_a_schema_that_is_open_or_cannot_be_checked_is_refused(schema: Any, text: str) -> None:
    with pytest.raises(Rejected, match=re.escape(text)) as caught:
        checked_schema(schema)
    assert caught.value.code == "bad_schema"


def test_references_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    doubling = {
        f"L{n}": {
            "type": "array",
            "items": False,
            "prefixItems": [{"$ref": f"#/$defs/L{n + 1}"}] * 8,
        }
        for n in range(4)
    }
    doubling["L4"] = {"type": "string"}
    with pytest.raises(Rejected, match="too large"):
        checked_schema(closed({"$ref": "#/$defs/L0"}, **{"$defs": doubling}))


def test_words_of_a_schema_inside_a_value_are_only_a_value() -> None:
    schema = closed({"enum": ["multipleOf", "$ref"], "default": "$ref"})
    assert Parameters(checked_schema(schema)).validate({}) == {"f": "$ref"}


TEXT = {"type": "string"}
NUMBERS = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (closed({**TEXT, "pattern": "^(a|a)*$"}), "properties/f/pattern: is not allowed"),
        # The dialect's own check compiles it, and recurses.
        (closed({**TEXT, "pattern": "(" * 20_000}), "properties/f/pattern: is not allowed"),
        (closed(TEXT, allOf=[{"not": {"pattern": "a"}}]), "allOf/0/not/pattern: is not allowed"),
        (closed({**POINT, "patternProperties": {"a": TEXT}}), "f/patternProperties: is not"),
        (
            closed({"$ref": "#/$defs/D"}, **{"$defs": {"D": {**TEXT, "pattern": "a"}}}),
            r"\$defs/D/pattern: is not allowed",
        ),
        (closed({**NUMBERS, "uniqueItems": True}), "uniqueItems: needs maxItems of at most 100"),
        (closed({**NUMBERS, "uniqueItems": True, "maxItems": 101}), "uniqueItems: needs maxItems"),
        (closed(TEXT, required=[{}, *range(30_000)]), "required: has more than 100 items"),
        (
            closed({**NUMBERS, "enum": [[n] for n in range(600)], "default": [0] * 300}),
            "f/default: is one default too many",
        ),
    ],
)
def test_others_may_not_use_what_takes_long_to_check(schema: dict[str, Any], text: str) -> None:
    with pytest.raises(Rejected, match=text) as raised:
        checked_schema(schema, trusted=False)
    assert raised.value.code == "bad_schema"


def test_names_and_values_are_no_keywords() -> None:
    field = {"type": "object", "properties": {"pattern": TEXT}, "additionalProperties": False}
    schema = closed({**field, "default": {"pattern": "a"}})
    schema["properties"]["uniqueItems"] = {**NUMBERS, "uniqueItems": True, "maxItems": 100}
    assert checked_schema(schema, trusted=False) == schema
    # A built-in plugin's patterns are known.
    checked_schema(closed({**TEXT, "pattern": "^a$"}))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"allOf": [{"additionalProperties": {"$ref": "http://h.test/"}}]}, "must be false"),
        ({"allOf": [{"unevaluatedProperties": {"$ref": "http://h.test/"}}]}, "is not supported"),
        ({"allOf": [{"unevaluatedItems": {"$ref": "http://h.test/"}}]}, "is not supported"),
        ({"allOf": [{"$schema": "http://json-schema.org/draft-03/schema#"}]}, "only at the top"),
    ],
)
def test_no_subschema_is_left_unread(more: dict[str, Any], text: str) -> None:
    with pytest.raises(Rejected, match=text):
        checked_schema(closed(TEXT, **more))


@pytest.mark.more
def test_a_long_list_costs_little_to_refuse() -> None:
    schema = closed({**NUMBERS, "uniqueItems": True, "maxItems": 100})
    parameters = Parameters(checked_schema(schema, trusted=False))
    # Of two kinds, which cannot be sorted.
    long = [{}, *range(25_000)]

    def refuse() -> None:
        with pytest.raises(InvalidRequest, match="f: must have at most 100 items"):
            parameters.validate({"f": long})

    assert processor_cost(refuse) < 100
    with pytest.raises(InvalidRequest, match="must not repeat"):
        parameters.validate({"f": [1, 1]})


@pytest.mark.parametrize(
    ("examples", "text"),
    [
        (({"f": "x" * (16 << 10)},), "examples: are more than 16 KiB"),
        (({"f": [0] * 6_000},), "examples: have too many values"),
    ],
)
def test_examples_of_others_cost_little(examples: tuple[Any, ...], text: str) -> None:
    schema = closed({"enum": list(range(100))})
    with pytest.raises(Rejected, match=text):
        check_examples_cheap(examples, schema)
    check_examples_cheap(({"f": 1},) * 20, schema)
