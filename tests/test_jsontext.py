"""JSON with exact numbers."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

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


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")],
    ids=str,
)
def test_no_number_without_a_value_is_written(value: object) -> None:
    for write in (jsontext.dumps, jsontext.indented):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write([value])


@pytest.mark.parametrize(
    "value", [b"bytes", {1, 2}, object(), datetime.now(UTC), {b"key": 1}, {Decimal("1.5"): 1}]
)
def test_what_is_none_of_jsons_types_is_not_written(value: object) -> None:
    with pytest.raises(TypeError):
        jsontext.dumps([value])


def test_what_contains_itself_or_goes_too_deep_is_an_error_and_no_crash() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="Circular"):
        jsontext.dumps(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        jsontext.dumps(deep)
    for levels in (65, 900, 100_000):
        # Brackets within texts are no levels.
        hidden = '["]",' * levels + "1" + ',"["]' * levels
        for text in (hidden, "[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels):
            with pytest.raises(jsontext.UnfitValue, match="at most 64 arrays and objects"):
                jsontext.read(text)
            with pytest.raises((ValueError, RecursionError)):
                jsontext.read_fast(text.encode())
    for text in ("[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(ValueError, match=r"\S") as refused:
            jsontext.read(text)
        assert not isinstance(refused.value, jsontext.UnfitValue)
        with pytest.raises((ValueError, RecursionError)):
            jsontext.read_fast(text.encode())


@pytest.mark.parametrize("digits", [400, 401, 4_300, 4_301])
@pytest.mark.parametrize("form", ["{}", "-{}", '{{"result": [{}]}}'])
def test_both_readers_take_integers_of_as_many_digits(digits: int, form: str) -> None:
    text = form.format("9" * digits)
    for read in (jsontext.read, lambda text: jsontext.read_fast(text.encode())):
        if digits <= jsontext.MAX_DIGITS:
            assert "9" * digits in str(read(text))
        else:
            with pytest.raises(ValueError, match=r"400 digits|out of range"):
                read(text)


# Recorded from simplejson 4.3.0, which wrote and read the texts of earlier releases. Stored hashes
# and fingerprints are over these bytes.
WRITTEN: list[tuple[object, str]] = [
    (Decimal("1.10"), "1.10"),
    (Decimal("1E+2"), "1E+2"),
    (Decimal("1E-9"), "1E-9"),
    (Decimal("0.000001"), "0.000001"),
    (Decimal("1E-7"), "1E-7"),
    (Decimal("-0.0"), "-0.0"),
    (Decimal("0E-20"), "0E-20"),
    (Decimal("1E+400"), "1E+400"),
    (Decimal("12345678901234567890.123456789"), "12345678901234567890.123456789"),
    (0.1, "0.1"),
    (1e16, "1e+16"),
    (1e-7, "1e-07"),
    (-0.0, "-0.0"),
    (2**64, "18446744073709551616"),
    (-(2**200), "-1606938044258990275541962092341162602522202993782792835301376"),
    (True, "true"),
    (TransactionStatus.PENDING, '"pending"'),
    ('\x00\x1f\b\t\n\f\r"\\/', '"\\u0000\\u001f\\b\\t\\n\\f\\r\\"\\\\/"'),
    ("\x7f\x80é\u2028\u2029\ufeff\U0001f600", '"\x7f\x80é\u2028\u2029\ufeff\U0001f600"'),
    ("\ud800 \udc00", '"\ud800 \udc00"'),
    ({}, "{}"),
    ([], "[]"),
    (("a", [None, False]), '["a",[null,false]]'),
    ({"a": 1, "b": {"c": Decimal("2.50"), "d": []}}, '{"a":1,"b":{"c":2.50,"d":[]}}'),
    ({1: True}, '{"1":true}'),
    ({None: 4}, '{"null":4}'),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=[ascii(text) for _, text in WRITTEN])
def test_the_bytes_are_those_of_earlier_releases(value: object, text: str) -> None:
    assert jsontext.dumps(value) == text
    assert jsontext.dumps([value, {"a": value}], canonical=True) == f'[{text},{{"a":{text}}}]'


def test_the_other_forms_are_those_of_earlier_releases() -> None:
    value = {"b": [Decimal("1.50"), {}], "a": "é\x7f\u2028\ud800\U0001f600", "\uffff": 1, "ü": 2}
    assert jsontext.dumps(value, ascii_only=True) == (
        r'{"b":[1.50,{}],"a":"\u00e9\u007f\u2028\ud800\ud83d\ude00","\uffff":1,"\u00fc":2}'
    )
    assert jsontext.indented(value) == (
        '{\n  "b": [\n    1.50,\n    {}\n  ],\n'
        '  "a": "é\x7f\u2028\ud800\U0001f600",\n  "\uffff": 1,\n  "ü": 2\n}'
    )
    del value["a"]
    assert hashlib.sha256(jsontext.dumps(value, canonical=True).encode()).hexdigest() == (
        "5b55fcb5a7cb053fca52972cc6e23af9bbe0ae0bc60707f2b9247c9bc52fe121"
    )


READ: list[tuple[str, object]] = [
    ("1.10", Decimal("1.10")),
    ("1e5", Decimal("1E+5")),
    ("-0.0", Decimal("-0.0")),
    ("1E-400", Decimal("1E-400")),
    ("-0", 0),
    ("9" * 4300, int("9" * 4300)),
    ('"\\ud83d\\ude00\\ud800"', "\U0001f600\ud800"),
    ('\ufeff{"a":[1]}', {"a": [1]}),
    ('{"a":1,"a":2}', {"a": 2}),
    (" [1 , 2]\n", [1, 2]),
]


@pytest.mark.parametrize(("text", "value"), READ, ids=[ascii(text)[:20] for text, _ in READ])
def test_the_values_are_those_of_earlier_releases(text: str, value: object) -> None:
    assert repr(jsontext.loads(text.encode())) == repr(value)


@pytest.mark.parametrize(
    "text",
    ["9" * 4301, "[01]", "[1.]", "[.5]", "[+1]", "[1,]", '{"a":1,}', '"\t"', r'"\x41"', r'"\u+123"',
     "\u0661", "/**/1", "1\x00", "[1\xa0]"],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_what_other_readers_may_read_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        jsontext.loads(text)


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
        jsontext.read(text)
    assert refused.value.path == path
    assert isinstance(jsontext.loads(text), dict | list)


def test_keys_may_stand_again_in_another_object() -> None:
    text = '{"a":{"a":1.5},"b":[{"a":1},{"a":2}]}'
    assert jsontext.read(text) == jsontext.loads(text)


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
    assert jsontext.explain_unfit(jsontext.loads(text)) == said


def test_the_path_of_an_unfit_value_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []
    member = jsontext.member

    def counted(path: str, key: str | int) -> str:
        paths.append(path)
        return member(path, key)

    monkeypatch.setattr(jsontext, "member", counted)
    value = {"a": [[0] * 100, ["\0"]]}
    assert jsontext.explain_unfit(value) == "a[1][0] must not contain a NUL character"
    assert len(paths) == 3


@pytest.mark.parametrize("text", ["1e99999999999999999999", "-1e-99999999999999999999"])
def test_an_exponent_that_no_number_has_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="exponent"):
        jsontext.loads(f'{{"a":{text}}}')
    with pytest.raises(jsontext.UnfitValue, match=r"^a must be a number of at most 400 digits"):
        jsontext.read(f'{{"a":{text}}}')


def test_a_number_is_named_only_where_it_is_why_a_text_is_refused() -> None:
    with pytest.raises(
        jsontext.UnfitValue, match=r"^The value must be a number of at most 400 digits"
    ):
        jsontext.read(b"9" * 5_000)
    for text in (b'{"a":1', b"\xff", b"[1e5,"):
        with pytest.raises(ValueError, match=r"\S") as refused:
            jsontext.read(text)
        assert not isinstance(refused.value, jsontext.UnfitValue)


def test_no_process_knows_the_mark_of_another_that_was_forked_beside_it() -> None:
    forked = (
        "import os; from solward.support import jsontext; mark = jsontext._MARK\n"
        "if os.fork() == 0: os._exit(jsontext._MARK == mark)\n"
        "print(os.wait()[1])"
    )
    done = subprocess.run([sys.executable, "-c", forked], capture_output=True, check=True)
    assert done.stdout == b"0\n"
