"""JSON text in and out with exact numbers: fractions are Decimal, NaN and Infinity are refused.

`read` and `read_fast` parse text from outside; `loads` parses text that this service wrote.
"""

from __future__ import annotations

import codecs
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
    twice: str  # A key that occurs twice in the object.


def _object(ambiguous: list[_Ambiguous], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    marked = _Ambiguous(value)
    marked.twice = max(Counter(key for key, _ in pairs).items(), key=lambda each: each[1])[0]
    ambiguous.append(marked)
    return marked


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


# The standard library cannot write a Decimal as a number. So a Decimal is first written as a text
# that begins with `_MARK`, which nobody else knows; then the mark and the quotes are removed.
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


def _mark_decimal(value: object) -> str:
    if not isinstance(value, Decimal):
        raise TypeError(f"A value of type {type(value).__name__} is not JSON")
    if not value.is_finite():
        raise ValueError(f"The number {value} is not JSON compliant")
    return f"{_MARK}{value}"


# Made once: the library's own `loads` and `dumps` make these for every text.
_decoder = partial(json.JSONDecoder, parse_constant=_refuse_constant)
_DECODER = _decoder(parse_float=Decimal)
_encoder = partial(json.JSONEncoder, allow_nan=False, default=_mark_decimal)
_ASCII = _encoder(separators=(",", ":"))
_ENCODER = _encoder(separators=(",", ":"), ensure_ascii=False)
_CANONICAL = _encoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True)
_INDENTED = _encoder(indent=2, ensure_ascii=False)
_OWN = msgspec.json.Encoder(decimal_format="number")
_OWN_CANONICAL = msgspec.json.Encoder(decimal_format="number", order="sorted")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_@*-]{1,60}")

# Limits far above the needs of any real request: the digits of a number before and after its point,
# and the depth of arrays and objects.
MAX_DIGITS = 400
MAX_DEPTH = 64
# White space of JSON (RFC 8259); a body of only these bytes is empty.
SPACE = b" \t\r\n"
# The maximum bytes of a text, and of an answer of a node of the ledger.
MAX_BYTES = 32 << 20
_TOO_LARGE: int = 10**MAX_DIGITS
_LESS_DEEP = f"have at most {MAX_DEPTH} arrays and objects within each other"
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


class UnfitValue(ValueError):
    """The JSON has a value that cannot be stored or calculated with; the error says which."""


def loads(text: str | bytes) -> Any:
    """Parse JSON that this service wrote; the last value of a duplicate key wins.

    Raises:
        ValueError: malformed text, NaN, Infinity or bytes that are not UTF-8.
    """
    return _decode(_DECODER, text.decode() if isinstance(text, bytes) else text)


def read(
    text: str | bytes,
    *,
    max_bytes: int = MAX_BYTES,
    has_nul: bool = False,
    any_number: bool = False,
    any_value: bool = False,
    deepest: int = MAX_DEPTH,
) -> Any:
    """Parse JSON that comes from outside this service, and ignore a leading byte order mark.

    Args:
        has_nul, any_number, deepest: see `explain_unfit`.
        any_value: the caller checks each text and number that it uses.

    Raises:
        DuplicateKey: an object has a key twice. The last would win here, and another program may
            have read the first.
        UnfitValue: the text has more than `max_bytes`, or a value that `explain_unfit` finds.
        ValueError: the text is not JSON in UTF-8; NaN and Infinity are not JSON.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > max_bytes:
        raise UnfitValue(f"The value must have at most {max_bytes} bytes")
    try:
        value = _parse_unique(text if isinstance(text, str) else text.decode())
        found = None
        may_be_unfit = not any_value and _MAY_BE_UNFIT.search(data)
        if may_be_unfit or _is_deep(data, value, deepest):
            found = explain_unfit(value, deepest=deepest, has_nul=has_nul, any_number=any_number)
    except RecursionError:
        if not data.rstrip().endswith((b"]", b"}")):
            raise ValueError("its arrays and objects do not end") from None
        found = f"The value must {_LESS_DEEP}"
    if found is not None:
        raise UnfitValue(found)
    return value


def read_fast(data: bytes) -> Any:
    """Parse JSON of a node of the ledger; fractions are floats, and NUL is allowed.

    msgspec accepts duplicate keys and any depth. If msgspec writes the value as the same bytes, as
    it does for most answers, no key is duplicate; other texts are parsed a second time.

    Raises:
        ValueError, RecursionError: as in `read`.
    """
    data = data.removeprefix(codecs.BOM_UTF8).rstrip(SPACE)
    value = msgspec.json.decode(data)
    if _is_deep(data, value):
        raise UnfitValue(f"The value must {_LESS_DEEP}")
    if msgspec.json.encode(value) != data:
        _parse_unique(data.decode())
    if _LONG_NUMBER.search(data) and (found := explain_unfit(value, has_nul=True)) is not None:
        raise UnfitValue(found)
    return value


def _parse_unique(text: str) -> Any:
    ambiguous: list[_Ambiguous] = []
    decoder = _decoder(parse_float=Decimal, object_pairs_hook=partial(_object, ambiguous))
    try:
        value = _decode(decoder, text)
    except ValueError:
        if (found := _unfit_number(text)) is not None:
            raise UnfitValue(found) from None
        raise
    if ambiguous:
        raise DuplicateKey(reduce(member, _find_duplicate_key(value) or (), ""))
    return value


def _decode(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        # Some editors begin a file with a byte order mark.
        return decoder.decode(text.removeprefix("\ufeff"))
    except InvalidOperation:
        raise ValueError("a number has an exponent that no number has") from None


def _unfit_number(text: str) -> str | None:
    """Explain why JSON text has a number too large to parse; None if the text fails otherwise."""
    try:
        return explain_unfit(_ANY_SIZE.decode(text.removeprefix("\ufeff")))
    except (ValueError, RecursionError):
        return None


# An escape is the only way to write NUL or half of a surrogate pair in UTF-8. Most texts have none.
_LONG = rb"(?<![0-9])[0-9]{%d}" % MAX_DIGITS
_LONG_NUMBER = re.compile(_LONG)
_MAY_BE_UNFIT = re.compile(rb"\\u|\xed[\xa0-\xbf]|[0-9][eE]|" + _LONG)


def _is_deep(data: bytes, value: object, deepest: int = MAX_DEPTH) -> bool:
    """Return whether a value has more than `deepest` levels; `data` is its text."""
    if data.count(b"[") + data.count(b"{") <= deepest:
        return False
    level: list[Any] = [[value]]
    for _ in range(deepest + 1):
        members = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for inner in members for each in inner if type(each) in (dict, list)]
        if not level:
            return False
    return True


def explain_unfit(
    value: Any,
    path: str = "",
    deepest: int = MAX_DEPTH,
    *,
    has_nul: bool = False,
    any_number: bool = False,
) -> str | None:
    """Explain what in a parsed value cannot be stored or calculated with, and its path, such as
    `grants[0].note must not contain a NUL character`; None if the whole value can.

    PostgreSQL refuses NUL, UTF-8 cannot encode a lone surrogate, and arithmetic with `1e999999999`
    never ends.

    Args:
        has_nul: text may have NUL characters; stored as JSON, they are escapes.
        any_number: the caller bounds each number that it uses.
        deepest: maximum depth of nested arrays and objects.
    """
    found = _find_unfit(value, deepest, has_nul, any_number)
    if found is None:
        return None
    said, is_key, keys = found
    where = reduce(member, reversed(keys), path)
    if said == _LESS_DEEP:
        where = _OUTERMOST.split(where)[0]
    return f"{'The key ' if is_key else ''}{where or 'The value'} must {said}"


def _find_unfit(
    value: Any, deepest: int, has_nul: bool, any_number: bool
) -> tuple[str, bool, list[str | int]] | None:
    """Find the first unfit value or key: what it must do, whether it is a key, and the keys and
    indexes to it, innermost first, because building a path for every value would be slow."""
    said = None
    if isinstance(value, str):
        said = _unfit_text(value, has_nul)
    elif isinstance(value, int | Decimal) and not isinstance(value, bool):
        said = None if any_number or _is_short_number(value) else _FEWER_DIGITS
    elif isinstance(value, dict | list):
        said = None if deepest else _LESS_DEEP
        for key, each in _member_items(value) if deepest else ():
            if isinstance(key, str) and (of_key := _unfit_text(key, has_nul)):
                return of_key, True, [key]
            found = _find_unfit(each, deepest - 1, has_nul, any_number)
            if found is not None:
                found[2].append(key)
                return found
    return (said, False, []) if said else None


def _unfit_text(text: str, has_nul: bool) -> str | None:
    if "\x00" in text and not has_nul:
        return "not contain a NUL character"
    if not text.isascii() and _SURROGATE.search(text):
        return "not contain half of a surrogate pair"
    return None


def _is_short_number(number: int | Decimal) -> bool:
    if isinstance(number, int):
        return -_TOO_LARGE < number < _TOO_LARGE
    exponent = number.as_tuple().exponent
    # A zero has an exponent, too, that writing it out makes as many digits of.
    is_short = isinstance(exponent, int) and -MAX_DIGITS <= exponent <= MAX_DIGITS
    return is_short and number.adjusted() < MAX_DIGITS


def _member_items(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _find_duplicate_key(value: Any, *parents: str | int) -> tuple[str | int, ...] | None:
    """Return the keys and indexes of the first duplicate key, the outermost first."""
    if isinstance(value, _Ambiguous):
        return (*parents, value.twice)
    for key, each in _member_items(value):
        found = _find_duplicate_key(each, *parents, key) if isinstance(each, dict | list) else None
        if found is not None:
            return found
    return None


def member(path: str, key: str | int) -> str:
    """Return a member's path, as errors name it: `a.b`, `a["c d"]`, `a[0]`; a long key is cut."""
    if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{key if isinstance(key, int) else json.dumps(key[:60])}]"


def dumps(value: Any, *, canonical: bool = False, ascii_only: bool = False) -> str:
    """Write JSON; Decimal becomes a plain number. `canonical` sorts keys, for hashes; `ascii_only`
    writes all other characters as escapes. Raises TypeError, ValueError or RecursionError."""
    encoder = _CANONICAL if canonical else _ASCII if ascii_only else _ENCODER
    return _MARKED.sub(r"\1", encoder.encode(value))


def dumps_own(value: Any, *, canonical: bool = False) -> str:
    """Write the same text as `dumps` in a tenth of its time, for values of this process or from
    `loads` that contain only objects, arrays, text, integers, booleans, None, finite Decimals.

    It does not refuse other values, and may write them differently than `dumps`.
    """
    return (_OWN_CANONICAL if canonical else _OWN).encode(value).decode()


def indented(value: Any) -> str:
    """Write JSON for people, two spaces a level."""
    return _MARKED.sub(r"\1", _INDENTED.encode(value))
