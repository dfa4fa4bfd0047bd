from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solward.plugins.parameters import Parameters
from solward.plugins.schema import checked_schema
from solward.types.errors import InvalidRequest

TRANSFER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "minLength": 3, "maxLength": 5},
        "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5},
        "bps": {"type": "integer", "minimum": 0, "default": 50},
        "mode": {"enum": ["fast", "cheap"], "default": "fast"},
        "route": {
            "type": "object",
            "properties": {
                "hops": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "properties": {
                            "mint": {"type": "string"},
                            "weight": {"type": "integer", "default": 1},
                        },
                        "required": ["mint"],
                        "additionalProperties": False,
                    },
                },
                "via": {"type": ["string", "null"], "default": None},
            },
            "additionalProperties": False,
        },
    },
    "required": ["to", "amount"],
    "additionalProperties": False,
}
OK: dict[str, Any] = {"to": "abc", "amount": 1}


def parameters(schema: dict[str, Any] = TRANSFER) -> Parameters:
    return Parameters(checked_schema(schema))


def field(schema: dict[str, Any]) -> Parameters:
    return parameters(
        {"type": "object", "properties": {"x": schema}, "additionalProperties": False}
    )


def refusal(params: object, schema: dict[str, Any] = TRANSFER) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parameters(schema).validate(params)
    return str(caught.value)


def test_defaults_are_applied_in_nested_objects_and_lists_and_the_input_is_left_alone() -> None:
    given: dict[str, Any] = {**OK, "route": {"hops": [{"mint": "a"}, {"mint": "b", "weight": 2}]}}
    validated = parameters().validate(given)
    assert validated == {
        **OK,
        "bps": 50,
        "mode": "fast",
        "route": {"hops": [{"mint": "a", "weight": 1}, {"mint": "b", "weight": 2}], "via": None},
    }
    assert "via" not in given["route"]
    assert "weight" not in given["route"]["hops"][0]


def test_a_default_object_is_not_shared_between_calls() -> None:
    checker = field({"type": "array", "items": {"type": "string"}, "default": []})
    checker.validate({})["x"].append("mine")
    assert checker.validate({}) == {"x": []}


def test_a_whole_decimal_of_an_integer_field_reaches_the_skill_as_int() -> None:
    bps = parameters().validate({**OK, "bps": Decimal("10.0")})["bps"]
    assert (bps, type(bps)) == (10, int)


def test_a_whole_decimal_is_made_int_inside_any_of_too() -> None:
    checker = field({"anyOf": [{"type": "integer"}, {"type": "null"}]})
    assert type(checker.validate({"x": Decimal("7.00")})["x"]) is int


def test_numbers_stay_exact() -> None:
    amount = parameters().validate({**OK, "amount": Decimal("0.000000001")})["amount"]
    assert amount == Decimal("0.000000001")
    assert isinstance(amount, Decimal)


def test_a_bound_written_as_a_fraction_is_that_fraction() -> None:
    # As a float 0.1 is a little more than Decimal("0.1"), and would refuse it.
    checker = field({"type": "number", "minimum": 0.1})
    assert checker.validate({"x": Decimal("0.1")}) == {"x": Decimal("0.1")}


def test_a_float_is_taken_as_it_is_written() -> None:
    assert field({"type": "number"}).validate({"x": 0.1}) == {"x": Decimal("0.1")}


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
def test_only_positive_amounts_within_the_bound_pass(amount: Decimal) -> None:
    try:
        parameters().validate({"to": "abc", "amount": amount})
    except InvalidRequest:
        assert not 0 < amount <= Decimal("2.5")
    else:
        assert 0 < amount <= Decimal("2.5")


JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text(max_size=5)
    | st.sampled_from(["abc", "fast"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["to", "amount", "route", "hops", "mint", "?"]), inner)
    ),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(TRANSFER["properties"], JSON_LIKE)))
def test_whatever_is_given_is_either_valid_or_an_invalid_request(params: dict[str, Any]) -> None:
    checker = parameters()
    try:
        validated = checker.validate(params)
    except InvalidRequest:
        return
    assert checker.validate(validated) == validated


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({**OK, "amount": -1}, "amount: must be greater than 0 (got -1)"),
        ({**OK, "amount": Decimal("2.51")}, "amount: must be at most 2.5 (got 2.51)"),
        ({**OK, "amount": "1"}, "amount: must be a number (got '1')"),
        ({**OK, "amount": True}, "amount: must be a number (got true)"),
        ({**OK, "amount": None}, "amount: must be a number (got null)"),
        ({**OK, "amount": [1]}, "amount: must be a number (got an array)"),
        ({**OK, "bps": Decimal("1.5")}, "bps: must be a whole number (got 1.5)"),
        ({**OK, "bps": -1}, "bps: must be at least 0 (got -1)"),
        ({**OK, "to": "ab"}, "to: must have at least 3 characters (got 'ab')"),
        ({**OK, "to": "abcdef"}, "to: must have at most 5 characters (got 'abcdef')"),
        ({**OK, "to": {}}, "to: must be text (got an object)"),
        ({**OK, "mode": "slow"}, "mode: must be one of 'fast', 'cheap' (got 'slow')"),
        ({**OK, "route": {"via": 1}}, "route.via: must be text or null (got 1)"),
        ({**OK, "route": {"hops": [{"mint": "a"}, {}]}}, "route.hops[1].mint: is required"),
        (
            {**OK, "route": {"hops": [{"mint": "a", "size": 1}]}},
            "route.hops[0]: unknown field 'size'; known: mint, weight",
        ),
        ({**OK, "foo": 1}, "unknown field 'foo'; known: to, amount, bps, mode, route"),
        ({"to": "abc"}, "amount: is required"),
        ({}, "to: is required; amount: is required"),
        ([], "parameters must be a JSON object"),
        (None, "parameters must be a JSON object"),
        ({**OK, "amount": float("nan")}, "amount: must be a finite number"),
        ({**OK, "amount": Decimal("Infinity")}, "amount: must be a finite number"),
        ({**OK, "amount": Decimal("1e999999999")}, "amount: is a number out of range"),
        ({**OK, "amount": Decimal("1e-999999")}, "amount: is a number out of range"),
        ({**OK, 1: 2}, "parameters: field names must be text"),
        ({**OK, "to": {1, 2}}, "to: contains a value that is not JSON"),
    ],
)
def test_what_does_not_fit_is_named_with_what_was_expected(params: object, text: str) -> None:
    assert refusal(params) == text


def test_several_faults_are_told_at_once() -> None:
    text = refusal({**OK, "amount": 0, "bps": "x"})
    assert text == ("amount: must be greater than 0 (got 0); bps: must be a whole number (got 'x')")


def test_a_schema_without_fields_says_so() -> None:
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    assert refusal({"a": 1}, empty) == "unknown field 'a'; no fields are known"


@pytest.mark.parametrize(
    "params",
    [
        {**OK, "to": "x" * 1_000_000},
        {**OK, "x" * 1_000_000: 1},
        {**OK, "bps": -(10**4000)},
        {**OK, "amount": Decimal("9." + "9" * 399)},
        {**OK, "mode": ["x"] * 100_000},
        {**OK, **{f"unknown{n}": 1 for n in range(10_000)}},
    ],
)
def test_a_huge_value_never_comes_back_in_the_error(params: object) -> None:
    assert len(refusal(params)) < 300


def test_nesting_beyond_sense_is_refused() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    assert "nested more than 32 levels deep" in refusal({**OK, "to": deep})
