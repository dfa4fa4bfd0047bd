"""JSON text in and out with exact numbers: fractions are Decimal, NaN and Infinity are refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import simplejson

# Made once: simplejson's own `loads` and `dumps` make these for every text.
_DECODER = simplejson.JSONDecoder(parse_float=Decimal, allow_nan=False)
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
_INDENTED = simplejson.JSONEncoder(use_decimal=True, allow_nan=False, ensure_ascii=False, indent=2)


def loads(text: str | bytes) -> Any:
    """Parse JSON; raises ValueError on malformed text, NaN, Infinity or non-UTF-8 bytes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    return _DECODER.decode(text)


def dumps(value: Any, *, canonical: bool = False) -> str:
    """Write JSON; Decimal becomes a plain number. `canonical` sorts keys, for hashes."""
    return (_CANONICAL if canonical else _ENCODER).encode(value)


def indented(value: Any) -> str:
    """Write JSON for people, two spaces a level."""
    return _INDENTED.encode(value)
