"""JSON text in and out with exact numbers: fractions are Decimal, NaN and Infinity are refused."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections import Counter
from collections.abc import Iterable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import partial, reduce
from typing import Any, NoReturn

import msgspec


class _Ambiguous(dict[str, Any]):
    twice: str  # A key that stands twice in the object.


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    marked = _Ambiguous(value)
    marked.twice = max(Counter(key for key, _ in pairs).items(), key=lambda each: each[1])[0]
    return marked


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


# The standard library writes no Decimal as a number. One is written as a text that begins with
# `_MARK`, which nobody else knows, and then loses the mark and its quotes.
_MARK: str
_MARKED: re.Pattern[str]


def _choose_mark() -> None:
    global _MARK, _MARKED
    _MARK = secrets.token_hex(16)
    _MARKED = re.compile(f'"{_MARK}([^"]+)"')


_choose_mark()
if sys.platform != "win32":
    # Plugin hosts are forked from one process: none of them knows another's.
    os.register_at_fork(after_in_child=_choose_mark)


def _marked(value: object) -> str:
    if not isinstance(value, Decimal):
        raise TypeError(f"A value of type {type(value).__name__} is not JSON")
    if not value.is_finite():
        raise ValueError(f"The number {value} is not JSON compliant")
    return f"{_MARK}{value}"


# Made once: the library's own `loads` and `dumps` make these for every text.
_decoder = partial(json.JSONDecoder, parse_constant=_refuse)
_DECODER = _decoder(parse_float=Decimal)
_UNIQUE = _decoder(parse_float=Decimal, object_pairs_hook=_object)
_encoder = partial(json.JSONEncoder, allow_nan=False, default=_marked)
_ASCII = _encoder(separators=(",", ":"))
_ENCODER = _encoder(separators=(",", ":"), ensure_ascii=False)
_CANONICAL = _encoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True)
_INDENTED = _encoder(indent=2, ensure_ascii=False)
_OWN = msgspec.json.Encoder(decimal_format="number")
_OWN_CANONICAL = msgspec.json.Encoder(decimal_format="number", order="sorted")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_@*-]{1,60}")

# What no request of this service needs more of, each far above any real one: the digits of a number
# before and after its point, and arrays and objects within each other.
MAX_DIGITS = 400
MAX_DEPTH = 64
_TOO_LARGE: int = 10**MAX_DIGITS
_FEWER_DIGITS = f"be a number of at most {MAX_DIGITS} digits before its point and after it"
_OUTERMOST = re.compile(r"[.\[]")


# Python converts no integer of more than 4,300 digits. An exponent that no Decimal has makes an
# infinite one here, or zero.
_any_size = Context(MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[]).create_decimal
_ANY_SIZE = _decoder(parse_float=_any_size, parse_int=_any_size)


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
        # Some editors begin a file with a byte order mark.
        value = (_UNIQUE if unique_keys else _DECODER).decode(text.removeprefix("\ufeff"))
    except InvalidOperation:
        raise ValueError("a number has an exponent that no number has") from None
    keys = _twice(value) if unique_keys else None
    if keys is not None:
        raise DuplicateKey(reduce(member, keys, ""))
    return value


def unfit_number(text: bytes) -> str | None:
    """What is wrong with a JSON text that `loads` refuses for the size of a number; None where that
    is not why."""
    try:
        return unfit(_ANY_SIZE.decode(text.decode("utf-8-sig")))
    except (ValueError, RecursionError):
        return None


def unfit(
    value: Any, path: str = "", deepest: int = MAX_DEPTH, *, has_nul: bool = False
) -> str | None:
    """What of a parsed value no store and no calculation can hold, by its path, such as
    `grants[0].note must not contain a NUL character`; None where there is nothing of that.

    It is PostgreSQL that refuses NUL, UTF-8 a lone surrogate, and arithmetic that takes for ever on
    `1e999999999`.

    Args:
        has_nul: text may have NUL characters, which are escapes where it is stored as JSON.
    """
    if isinstance(value, str):
        said = _unfit_text(value, has_nul)
    elif isinstance(value, int | Decimal) and not isinstance(value, bool):
        said = None if _is_plain(value) else _FEWER_DIGITS
    elif not isinstance(value, dict | list):
        return None
    elif not deepest:
        path = _OUTERMOST.split(path)[0]
        said = f"have at most {MAX_DEPTH} arrays and objects within each other"
    else:
        for key, each in _items(value):
            where = member(path, key)
            said = _unfit_text(key, has_nul) if isinstance(key, str) else None
            if said:
                return f"The key {where} must {said}"
            found = unfit(each, where, deepest - 1, has_nul=has_nul)
            if found:
                return found
        return None
    return f"{path or 'The value'} must {said}" if said else None


def _unfit_text(text: str, has_nul: bool) -> str | None:
    if "\x00" in text and not has_nul:
        return "not contain a NUL character"
    if not text.isascii() and _SURROGATE.search(text):
        return "not contain half of a surrogate pair"
    return None


def _is_plain(number: int | Decimal) -> bool:
    if isinstance(number, int):
        return -_TOO_LARGE < number < _TOO_LARGE
    exponent = number.as_tuple().exponent
    # A zero has an exponent, too, that writing it out makes as many digits of.
    is_short = isinstance(exponent, int) and -MAX_DIGITS <= exponent <= MAX_DIGITS
    return is_short and number.adjusted() < MAX_DIGITS


def _items(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _twice(value: Any, *parents: str | int) -> tuple[str | int, ...] | None:
    """Keys and indexes of the first key that stands twice, the outermost first."""
    if isinstance(value, _Ambiguous):
        return (*parents, value.twice)
    for key, each in _items(value):
        found = _twice(each, *parents, key) if isinstance(each, dict | list) else None
        if found is not None:
            return found
    return None


def member(path: str, key: str | int) -> str:
    """The path of a member, as errors name it: `a.b`, `a["c d"]`, `a[0]`; a long key is cut."""
    if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{key if isinstance(key, int) else json.dumps(key[:60])}]"


def dumps(value: Any, *, canonical: bool = False, ascii_only: bool = False) -> str:
    """Write JSON; Decimal becomes a plain number. `canonical` sorts keys, for hashes; `ascii_only`
    writes all other characters as escapes. Raises TypeError, ValueError or RecursionError."""
    encoder = _CANONICAL if canonical else _ASCII if ascii_only else _ENCODER
    return _MARKED.sub(r"\1", encoder.encode(value))


def dumps_own(value: Any, *, canonical: bool = False) -> str:
    """The same text as `dumps`, in a tenth of its time, of what holds objects, arrays, text,
    integers, booleans, None and finite Decimals alone: what this process made, or `loads` gave.

    Anything else may be written otherwise, and is not refused.
    """
    return (_OWN_CANONICAL if canonical else _OWN).encode(value).decode()


def indented(value: Any) -> str:
    """Write JSON for people, two spaces a level."""
    return _MARKED.sub(r"\1", _INDENTED.encode(value))
