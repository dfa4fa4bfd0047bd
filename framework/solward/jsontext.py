"""JSON text in and out with exact numbers: fractions are Decimal, NaN and Infinity are refused."""

from __future__ import annotations

from typing import Any

import simplejson


def loads(text: str | bytes) -> Any:
    """Parse JSON; raises ValueError on malformed text, NaN, Infinity or non-UTF-8 bytes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    return simplejson.loads(text, use_decimal=True, allow_nan=False)


def dumps(value: Any, *, canonical: bool = False) -> str:
    """Write JSON; Decimal becomes a plain number. `canonical` sorts keys, for hashes."""
    return simplejson.dumps(
        value,
        use_decimal=True,
        allow_nan=False,
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=canonical,
    )
