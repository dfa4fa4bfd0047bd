"""JSON text in and out with exact numbers: fractions are Decimal, NaN and Infinity are refused."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from typing import Any

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
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_@*-]{1,60}")
_INDENTED = simplejson.JSONEncoder(use_decimal=True, allow_nan=False, ensure_ascii=False, indent=2)


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
    if not unique_keys:
        return _DECODER.decode(text)
    value = _UNIQUE.decode(text)
    keys = _to_ambiguous(value) if isinstance(value, dict | list) else None
    if keys is not None:
        path = ""
        for key in reversed(keys):
            path = member(path, key) if isinstance(key, str) else f"{path}[{key}]"
        raise DuplicateKey(path)
    return value


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


def indented(value: Any) -> str:
    """Write JSON for people, two spaces a level."""
    return _INDENTED.encode(value)
