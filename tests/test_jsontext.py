"""JSON with exact numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from solward.support import jsontext
from solward.types.record import TransactionStatus


def test_fractions_are_exact_both_ways() -> None:
    text = '{"a":0.123456789012345678901,"b":1.50,"c":12345678901234567890,"d":[true,null]}'
    value = jsontext.loads(text)
    assert value["a"] == Decimal("0.123456789012345678901")
    assert type(value["c"]) is int
    assert jsontext.dumps(value) == text
    assert jsontext.loads(text.encode()) == value


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", '{"a":NaN}', "{", "1 2", "", "{'a':1}"]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        jsontext.loads(text)


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        jsontext.loads(b'"\xff"')


@pytest.mark.parametrize("value", [float("nan"), Decimal("NaN"), Decimal("Infinity")])
def test_no_number_without_a_value_is_written(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsontext.dumps([value])


def test_canonical_text_does_not_depend_on_the_order_of_keys() -> None:
    one, other = {"b": 1, "a": {"d": 2, "c": 3}}, {"a": {"c": 3, "d": 2}, "b": 1}
    assert jsontext.dumps(one) != jsontext.dumps(other)
    assert jsontext.dumps(one, canonical=True) == jsontext.dumps(other, canonical=True)


@pytest.mark.parametrize(
    "value",
    [
        Decimal("0.001000500"),
        Decimal("1E-9"),
        Decimal("1E+3"),
        Decimal("-0.0"),
        2**63,
        -(2**70),
        "".join(map(chr, range(0x100))) + '\u2028\u2029\ufeff\U0001f600 </&"\\',
        {
            "b": 1,
            "a": {"ü": [None, True, False, {}], "z": []},
            "A": "",
            "\U0001f600": 1,
            "\uffff": 2,
        },
        (1, "2"),
        TransactionStatus.PENDING,
    ],
    ids=[
        "fraction",
        "small",
        "large",
        "zero",
        "64 bits",
        "70 bits",
        "text",
        "object",
        "array",
        "enum",
    ],
)
@pytest.mark.parametrize("canonical", [False, True])
def test_what_this_process_made_is_the_same_text(value: object, canonical: bool) -> None:
    whole = {"value": value, "more": [value]}
    text = jsontext.dumps_own(whole, canonical=canonical)
    assert text == jsontext.dumps(whole, canonical=canonical)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a":1,"a":1}', "a"),
        ('{"a":[{"b":{}},{"b":{"c":1,"d":2,"c":3}}]}', "a[1].b.c"),
        ('{"a":{"b":1,"b":2},"a":{"b":3}}', "a"),
        ('[{"\\u0430\\n":1,"\\u0430\\n":2}]', '[0]["\\u0430\\n"]'),
        ('{"a":1,"\\u0061":2}', "a"),
    ],
)
def test_a_key_that_stands_twice_is_named(text: str, path: str) -> None:
    with pytest.raises(jsontext.DuplicateKey) as refused:
        jsontext.loads(text, unique_keys=True)
    assert refused.value.path == path
    assert isinstance(jsontext.loads(text), dict | list)


def test_keys_may_stand_again_in_another_object() -> None:
    text = '{"a":{"a":1.5},"b":[{"a":1},{"a":2}]}'
    assert jsontext.loads(text, unique_keys=True) == jsontext.loads(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r'{"a":{"b":["x\u0000"]}}', "a.b[0] must not contain a NUL character"),
        (r'{"a\u0000":1}', r'The key ["a\u0000"] must not contain a NUL character'),
        (r'{"a":"\ud800"}', "a must not contain half of a surrogate pair"),
        (r'{"a":"\ud83d\ude00"}', None),
        ('{"a":1e400}', "a must be a number of at most 400 digits before its point and after it"),
        ('{"a":-1e399}', None),
        ('{"a":1e-401}', "a must be a number of at most 400 digits before its point and after it"),
        ('{"a":0e401}', "a must be a number of at most 400 digits before its point and after it"),
        ('{"a":' + "9" * 401 + "}",
         "a must be a number of at most 400 digits before its point and after it"),
        ('{"a":' + "9" * 400 + "}", None),
        ('{"a":' + "[" * 64 + "]" * 64 + "}",
         "a must have at most 64 arrays and objects within each other"),
        ('{"a":' + "[" * 63 + "]" * 63 + "}", None),
        (r'"\u0000"', "The value must not contain a NUL character"),
    ],
)  # fmt: skip
def test_what_nothing_can_hold_is_named(text: str, said: str | None) -> None:
    assert jsontext.unfit(jsontext.loads(text)) == said


@pytest.mark.parametrize("text", ["1e99999999999999999999", "-1e-99999999999999999999"])
def test_an_exponent_that_no_number_has_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="exponent"):
        jsontext.loads(f'{{"a":{text}}}')
    assert str(jsontext.unfit_number(f'{{"a":{text}}}'.encode())).startswith("a must be a number")


def test_only_a_number_is_why_a_text_with_one_is_refused() -> None:
    assert jsontext.unfit_number(b'{"a":1') is None
    assert jsontext.unfit_number(b"\xff") is None
    assert str(jsontext.unfit_number(b"9" * 5_000)).startswith("The value must be a number")
