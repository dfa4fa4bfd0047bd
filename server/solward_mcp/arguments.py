"""A tool's arguments as the service is given them: exact numbers, and the wallet apart.

The SDK reads JSON fractions as floats. A float that its shortest text writes with 15 digits or
fewer is that very number (IEEE 754 binary64 keeps 15 decimal digits); with more, what was written
is no longer known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_EXACT_DIGITS = 15
_MAX_KEY = 255

IDEMPOTENCY_META = "solward/idempotencyKey"


class BadArgument(Exception):
    """An argument cannot be passed on; the text names it, for the model."""


def exact(value: Any, field: str, *, money: bool) -> Any:
    """The value without floats, at any depth.

    Args:
        money: whether a number may be an amount, which must not be off by a unit.

    Raises:
        BadArgument: a number is not finite, or is an amount of more than 15 digits.
    """
    if isinstance(value, float):
        return _number(value, field, money)
    if isinstance(value, Mapping):
        return {
            name: exact(item, f"{field}.{name}" if field else name, money=money)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [exact(item, f"{field}[{at}]", money=money) for at, item in enumerate(value)]
    return value


def taken_wallet(arguments: dict[str, Any], name: str) -> str | None:
    """Take the wallet out of the arguments; raises `BadArgument`."""
    wallet = arguments.pop(name, None)
    if wallet is not None and (not isinstance(wallet, str) or not wallet):
        raise BadArgument(f"{name} must be a string: the name or id of a wallet")
    return wallet


def idempotency_key(meta: Mapping[str, Any] | None) -> str | None:
    """The caller's own key for a call, from the request's `_meta`; raises `BadArgument`."""
    key = (meta or {}).get(IDEMPOTENCY_META)
    if key is None:
        return None
    fits = isinstance(key, str) and 1 <= len(key) <= _MAX_KEY
    if not fits or not key.isascii() or not key.isprintable():
        raise BadArgument(
            f"_meta {IDEMPOTENCY_META} must be 1 to {_MAX_KEY} visible ASCII characters"
        )
    assert isinstance(key, str)
    return key


def _number(value: float, field: str, money: bool) -> Decimal:
    if not math.isfinite(value):
        raise BadArgument(f"{field} must be a finite number")
    number = Decimal(repr(value))
    if money and len(number.normalize().as_tuple().digits) > _EXACT_DIGITS:
        raise BadArgument(
            f"{field} must have at most {_EXACT_DIGITS} digits: JSON numbers of MCP carry no more "
            "exactly"
        )
    return number
