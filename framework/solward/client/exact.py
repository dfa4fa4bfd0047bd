"""Numbers as they are sent: exact, never a float."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from solward.errors import InvalidRequest

Amount: TypeAlias = Decimal | int | str

_PLAIN = re.compile(r"(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})", re.ASCII)


def number(value: Amount, field: str = "amount") -> Decimal | int:
    """An amount as JSON will write it.

    Raises:
        TypeError: it is a float, or no number at all.
        InvalidRequest: its text is no plain decimal number, or it is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, Decimal | int | str):
        raise TypeError(
            f"{field} must be a Decimal, an int or a str, not a {type(value).__name__}: "
            "floats are not exact"
        )
    if isinstance(value, str):
        if not _PLAIN.fullmatch(value.strip()):
            raise InvalidRequest(f"{field} must be a number such as 0.5; got {value!r}")
        return Decimal(value.strip())
    if isinstance(value, Decimal) and not value.is_finite():
        raise InvalidRequest(f"{field} must be a finite number")
    return value


def optional(value: Amount | None, field: str = "amount") -> Decimal | int | None:
    """`number`, where the service has a default of its own."""
    return None if value is None else number(value, field)


def refuse_floats(value: Any, field: str) -> None:
    """Look for floats at any depth; raises `TypeError` naming where."""
    if isinstance(value, float):
        raise TypeError(f"{field} must be a Decimal, an int or a str: floats are not exact")
    if isinstance(value, Mapping):
        for name, item in value.items():
            refuse_floats(item, f"{field}.{name}" if field else str(name))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            refuse_floats(item, f"{field}[{place}]")


def without_floats(value: Any) -> Any:
    """A model's options as JSON writes them; they are no money, so floats are fine there."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {name: without_floats(item) for name, item in value.items()}
    return [without_floats(item) for item in value] if isinstance(value, list | tuple) else value


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None, named as the service names them: `wallet_id` -> `walletId`."""
    return {_camel(name): value for name, value in fields.items() if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))
