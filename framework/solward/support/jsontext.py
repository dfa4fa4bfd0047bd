"""JSON text in and out with exact numbers: fractions are Decimal, NaN and Infinity are refused."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import simplejson


class _Ambiguous(dict[str, Any]):
    """An object with a key that stands twice, which is `twice`."""

    twice: str


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    marked = _Ambiguous(value)
    marked.twice = max(Counter(key for key, _ in pairs).items(), key=lambda each: each[1])[0]
    return marked


# Made once: simplejson's own `loads` and `dumps` make these for every text.
_DECODER = simplejson.JSONDecoder(parse_float=Decimal, allow_nan=False)
_UNIQUE = simplejson.JSONDecoder(parse_float=Decimal, allow_nan=False, object_pairs_hook=_object)
_ENCODER, _CANONICAL = (
    simplejson.JSONEncoder(
        use_decimal=True,
        allow_nan=False,
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
    )
    for sort_keys in (False, True)
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_OWN = msgspec.json.Encoder(decimal_format="number")
_OWN_CANONICAL = msgspec.json.Encoder(decimal_format="number", order="sorted")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_@*-]{1,60}")
_INDENTED = simplejson.JSONEncoder(use_decimal=True, allow_nan=False, ensure_ascii=False, indent=2)


# What no request of this service needs more of, each far above any real one: the digits of a number
# before and after its point, and arrays and objects within each other.
MAX_DIGITS = 400
MAX_DEPTH = 64
_TOO_LARGE: int = 10**MAX_DIGITS
_FEWER_DIGITS = f"be a number of at most {MAX_DIGITS} digits before its point and after it"
_OUTERMOST = re.compile(r"[.\[]")


def _any_size(text: str) -> Decimal:
    """A number; one whose exponent no Decimal has is an infinite one."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")


# Python converts no integer of more than 4,300 digits, and no exponent of more than 18.
_ANY_SIZE = simplejson.JSONDecoder(parse_float=_any_size, parse_int=_any_size, allow_nan=False)


class DuplicateKey(ValueError):
    """An object has a key twice; `path` says which, such as `grants[0].assets.USDC`."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} stands twice")
        self.path = path


def loads(text: str | bytes, *, unique_keys: bool = False) -> Any:
    """Parse JSON; raises ValueError on malformed text, NaN, Infinity or non-UTF-8 bytes.

    Args:
        unique_keys: raise `DuplicateKey` where an object has a key twice, of which the last would
            win here and another program may have read the first.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = (_UNIQUE if unique_keys else _DECODER).decode(text)
    except InvalidOperation:
        raise ValueError("a number has an exponent that no number has") from None
    if not unique_keys:
        return value
    keys = _to_ambiguous(value) if isinstance(value, dict | list) else None
    if keys is not None:
        path = ""
        for key in reversed(keys):
            path = member(path, key) if isinstance(key, str) else f"{path}[{key}]"
        raise DuplicateKey(path)
    return value


def unfit_number(text: bytes) -> str | None:
    """What is wrong with a JSON text that `loads` refuses for the size of a number; None where that
    is not why."""
    try:
        return unfit(_ANY_SIZE.decode(text.decode("utf-8")))
    except (ValueError, RecursionError):
        return None


def unfit(value: Any, path: str = "") -> str | None:
    """What of a parsed value no store and no calculation can hold, by its path, such as
    `grants[0].note must not contain a NUL character`; None where there is nothing of that.

    It is PostgreSQL that refuses NUL, UTF-8 a lone surrogate, and arithmetic that takes for ever on
    `1e999999999`.
    """
    return _unfit(value, path, MAX_DEPTH)


def _unfit(value: Any, path: str, deeper: int) -> str | None:
    if isinstance(value, str):
        said = _unfit_text(value)
    elif isinstance(value, int | Decimal) and not isinstance(value, bool):
        said = None if _is_plain(value) else _FEWER_DIGITS
    elif not isinstance(value, dict | list):
        return None
    elif not deeper:
        path = _OUTERMOST.split(path)[0]
        said = f"have at most {MAX_DEPTH} arrays and objects within each other"
    elif isinstance(value, dict):
        for key, each in value.items():
            where = member(path, key)
            said = _unfit_text(key)
            found = f"The key {where} must {said}" if said else _unfit(each, where, deeper - 1)
            if found:
                return found
        return None
    else:
        parts = (_unfit(each, f"{path}[{at}]", deeper - 1) for at, each in enumerate(value))
        return next(filter(None, parts), None)
    return f"{path or 'The value'} must {said}" if said else None


def _unfit_text(text: str) -> str | None:
    if "\x00" in text:
        return "not contain a NUL character"
    if not text.isascii() and _SURROGATE.search(text):
        return "not contain half of a surrogate pair"
    return None


def _is_plain(number: int | Decimal) -> bool:
    if isinstance(number, int):
        return -_TOO_LARGE < number < _TOO_LARGE
    exponent = number.as_tuple().exponent
    # A zero has an exponent, too, that writing it out makes as many digits of.
    return (
        isinstance(exponent, int)
        and -MAX_DIGITS <= exponent <= MAX_DIGITS
        and number.adjusted() < MAX_DIGITS
    )


def _to_ambiguous(value: Any) -> list[str | int] | None:
    """Keys and indexes of the first key that stands twice, the innermost first; None where none
    does."""
    if isinstance(value, _Ambiguous):
        return [value.twice]
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, dict | list):
            found = _to_ambiguous(each)
            if found is not None:
                return [*found, key]
    return None


def member(path: str, key: str) -> str:
    """The path of an object's member, as errors name it: `a.b`, `a["c d"]`; a long key is cut."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{simplejson.dumps(key[:60])}]"


def dumps(value: Any, *, canonical: bool = False) -> str:
    """Write JSON; Decimal becomes a plain number. `canonical` sorts keys, for hashes."""
    return (_CANONICAL if canonical else _ENCODER).encode(value)


def dumps_own(value: Any, *, canonical: bool = False) -> str:
    """The same text as `dumps`, in a fifth of its time, of what holds objects, arrays, text,
    integers, booleans, None and finite Decimals alone: what this process made, or `loads` gave.

    Anything else may be written otherwise, and is not refused.
    """
    return (_OWN_CANONICAL if canonical else _OWN).encode(value).decode()


def indented(value: Any) -> str:
    """Write JSON for people, two spaces a level."""
    return _INDENTED.encode(value)
