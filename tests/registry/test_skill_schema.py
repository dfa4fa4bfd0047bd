from __future__ import annotations

import re
from typing import Any

import pytest

from solward.registry.parameters import Parameters
from solward.registry.problems import Rejected
from solward.registry.schema import checked_schema

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
        (closed(True), "properties/f: must be a schema, not true or false"),
        (closed({"anyOf": [{"type": "null"}, {}]}), "properties/f/anyOf/1: has no type"),
        (closed({"type": "array"}), "properties/f: an array must say what its items are"),
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
            "properties/f: only a description",
        ),
        (
            closed({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}}),
            "is too large, nested too deep, or refers to itself",
        ),
        (closed({"type": "string", "$id": "https://example.com"}), "properties/f/$id: would"),
        (closed({"type": "nonsense"}), "properties/f/type: 'nonsense' is not valid"),
        (closed({"type": "string", "pattern": "("}), "properties/f/pattern: "),
        (closed({"type": "string", "minLength": -1}), "properties/f/minLength: "),
        (closed({"type": "string"}, required="f"), "required: "),
        (closed({"type": "number", "minimum": float("inf")}), "must be a finite number"),
        (closed({"enum": [{1, 2}]}), "holds a value that is not JSON"),
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
