"""What a form asks for and what it means, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from solward.plugins.schema import checked_schema
from solward_dashboard.forms import Errors, Field, Kind, fields_of, path_text, read
from solward_plugins.skills.operations import SWAP, TRANSFER


def _schema(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    # Every schema of these tests is one that a plugin may have.
    return checked_schema({**schema, "required": [*required]})


def _read(schema: dict[str, Any], /, **typed: Any) -> dict[str, Any]:
    values, errors = _try(schema, **typed)
    assert errors == {}
    return values


def _try(schema: dict[str, Any], /, **typed: Any) -> tuple[dict[str, Any], Errors]:
    fields = fields_of(schema)
    untouched = {each.name: each.initial for each in fields}
    return read(schema, fields, {**untouched, **typed})


def _only(schema: dict[str, Any]) -> Field:
    (field,) = fields_of(schema)
    return field


def test_what_a_plugin_says_of_a_field_turns_nothing_that_stands_after_it() -> None:
    turned = "\u202e.tnuoma ynA"
    said = {"type": "integer", "minimum": 3, "title": turned, "description": f"Two\nlines {turned}"}
    field = _only(_schema(("count",), count=said))
    assert field.label == "\ufffd.tnuoma ynA"
    assert field.help == "Two lines \ufffd.tnuoma ynA At least 3."


NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("0.1", Decimal("0.1")),
        ("0.300000000000000000000004", Decimal("0.300000000000000000000004")),
        ("18446744073709551615", 18446744073709551615),
        (" 2 ", 2),
        (".5", Decimal("0.5")),
        ("-1", -1),
    ],
)
def test_a_number_is_read_exactly(typed: str, meant: Decimal | int) -> None:
    value = _read(_schema(x=NUMBER), x=typed)["x"]
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize("typed", ["1,5", "1e3", "one", "0x10", "NaN", "1 000", "٣", "."])
def test_what_is_no_plain_number_is_an_error_at_its_field(typed: str) -> None:
    _values, errors = _try(_schema(x=NUMBER), x=typed)
    assert errors == {("x",): "must be a number such as 0.5"}


def test_a_whole_number_has_no_fraction() -> None:
    schema = _schema(x=INTEGER)
    assert _read(schema, x="7") == {"x": 7}
    _values, errors = _try(schema, x="7.5")
    assert errors == {("x",): "must be a whole number (got 7.5)"}


def test_bounds_are_those_of_the_service_and_in_its_words() -> None:
    schema = _schema(amount={"type": "number", "exclusiveMinimum": 0, "maximum": 2})
    assert _try(schema, amount="0")[1] == {("amount",): "must be greater than 0 (got 0)"}
    assert _try(schema, amount="2.1")[1] == {("amount",): "must be at most 2 (got 2.1)"}


def test_what_is_required_and_left_out_is_named() -> None:
    schema = _schema(("to", "amount"), to=TEXT, amount=NUMBER, note=TEXT)
    values, errors = _try(schema, to="  ", note="")
    assert errors == {("to",): "is required", ("amount",): "is required"}
    assert values == {}


def test_what_may_be_left_out_is_not_sent() -> None:
    assert _read(_schema(a=TEXT, b=NUMBER, c={"type": "boolean"}, d={"enum": [1, 2]})) == {}


def test_text_is_kept_as_it_was_typed() -> None:
    assert _read(_schema(x=TEXT), x=" two  words ") == {"x": " two  words "}


def test_defaults_are_there_to_begin_with() -> None:
    schema = _schema(
        bps={"type": "integer", "default": 50},
        ratio={"type": "number", "default": 0.1},
        on={"type": "boolean", "default": True},
        side={"type": "string", "enum": ["buy", "sell"], "default": "sell"},
    )
    assert _read(schema) == {"bps": 50, "ratio": Decimal("0.1"), "on": True, "side": "sell"}
    assert "bps" not in _read(schema, bps="")


def test_known_values_take_the_place_of_defaults() -> None:
    schema = _schema(bps={"type": "integer", "default": 50}, inner=_schema(x=TEXT))
    fields = fields_of(schema, {"bps": 75, "inner": {"x": "kept"}})
    values, errors = read(schema, fields, {each.name: each.initial for each in fields})
    assert errors == {}
    assert values == {"bps": 75, "inner": {"x": "kept"}}


def test_a_choice_keeps_the_type_of_its_value() -> None:
    schema = _schema(x={"enum": [1, True, "1", None]})
    assert [_read(schema, x=at)["x"] for at in range(4)] == [1, True, "1", None]
    assert _read(schema, x=1)["x"] is True


def test_a_single_value_is_chosen_only_where_it_must_be() -> None:
    assert _read(_schema(("x",), x={"const": "v1"})) == {"x": "v1"}
    assert _read(_schema(x={"const": "v1"})) == {}


def test_constants_side_by_side_are_a_choice() -> None:
    field = _only(_schema(x={"anyOf": [{"const": "a"}, {"enum": ["b", "c"]}]}))
    assert (field.kind, field.choices) == (Kind.CHOICE, ("a", "b", "c"))


def test_a_boolean_that_may_be_left_out_has_three_answers() -> None:
    schema = _schema(x={"type": "boolean"})
    assert _only(schema).kind is Kind.CHOICE
    assert [_read(schema, x=typed) for typed in (None, 0, 1)] == [{}, {"x": True}, {"x": False}]


def test_one_of_several_types_is_read_as_the_narrowest() -> None:
    schema = _schema(x={"anyOf": [NUMBER, TEXT, {"type": "boolean"}]})
    typed = ("0.5", "half", "true")
    assert [_read(schema, x=each)["x"] for each in typed] == [Decimal("0.5"), "half", True]


def test_what_may_be_null_is_null_only_where_it_must_be_given() -> None:
    assert _read(_schema(x={"type": ["number", "null"]})) == {}
    assert _read(_schema(("x",), x={"anyOf": [NUMBER, {"type": "null"}]})) == {"x": None}


def test_an_object_within_may_be_left_out_whole() -> None:
    schema = _schema(fee=_schema(("amount",), amount=NUMBER, unit={**TEXT, "default": "SOL"}))
    assert _read(schema) == {}
    assert _read(schema, fee={"amount": "1", "unit": "SOL"}) == {
        "fee": {"amount": 1, "unit": "SOL"}
    }
    _values, errors = _try(schema, fee={"amount": "", "unit": "USDC"})
    assert errors == {("fee", "amount"): "is required"}


PAYMENTS = _schema(
    ("payments",),
    payments={
        "type": "array",
        "minItems": 1,
        "maxItems": 2,
        "items": _schema(("to", "amount"), to=TEXT, amount=NUMBER),
    },
)


def test_a_list_of_objects_is_read_line_by_line() -> None:
    lines = [{"to": "a", "amount": "0.1"}, {"to": "b", "amount": "2"}]
    assert _read(PAYMENTS, payments=lines) == {
        "payments": [{"to": "a", "amount": Decimal("0.1")}, {"to": "b", "amount": 2}]
    }


def test_a_list_that_must_be_given_begins_with_a_line() -> None:
    assert _only(PAYMENTS).initial == [{"to": "", "amount": ""}]


def test_an_error_in_a_list_names_its_line() -> None:
    _values, errors = _try(PAYMENTS, payments=[{"to": "a", "amount": "1"}, {"to": "b"}])
    assert [path_text(path) for path in errors] == ["payments[1].amount"]


def test_a_list_has_as_many_lines_as_its_schema_allows() -> None:
    line = {"to": "a", "amount": "1"}
    assert _try(PAYMENTS, payments=[line] * 3)[1][("payments",)].startswith("must have at most 2")
    assert _try(PAYMENTS, payments=[])[1][("payments",)].startswith("must have at least 1")


def test_a_list_that_may_be_left_out_is() -> None:
    assert _read(_schema(x={"type": "array", "items": TEXT})) == {}


def test_what_no_form_shows_is_typed_as_json_and_read_exactly() -> None:
    schema = _schema(x={"anyOf": [_schema(a=NUMBER), {"type": "array", "items": NUMBER}]})
    assert _only(schema).kind is Kind.JSON
    assert _read(schema, x='{"a": 0.1}') == {"x": {"a": Decimal("0.1")}}
    assert _try(schema, x="{")[1][("x",)].startswith("must be JSON: ")
    assert ("x",) in _try(schema, x='{"b": 1}')[1]


def test_a_rule_over_several_fields_is_told_of_the_whole() -> None:
    schema = _schema(a=TEXT, b=TEXT) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert _read(schema, b="x") == {"b": "x"}
    assert () in _try(schema)[1]


def test_required_fields_come_first_with_names_in_words() -> None:
    names = [each.label for each in fields_of(SWAP.skill_spec().parameters)]
    assert names == ["Input token", "Output token", "Amount", "Slippage bps"]
    assert [each.required for each in fields_of(TRANSFER.skill_spec().parameters)] == [True, True]


def test_help_tells_bounds_that_the_description_does_not() -> None:
    bounded = {"type": "integer", "description": "Percent.", "maximum": 100, "examples": [5]}
    assert _only(_schema(x=bounded)).help == "Percent. At most 100; for example 5."
    said = {"type": "number", "description": "SOL, at most 2.", "exclusiveMinimum": 0, "maximum": 2}
    assert _only(_schema(x=said)).help == "SOL, at most 2."


def test_schemas_of_any_depth_end_in_json() -> None:
    schema = _schema(x=TEXT)
    for _ in range(8):
        schema = _schema(x=schema)
    field = _only(schema)
    while field.kind is Kind.GROUP:
        (field,) = field.fields
    assert field.kind is Kind.JSON
