"""Readers that the payment protocols share: base64 in headers, and fields by their names.

A seller's answer is read as strictly as possible: anything that two programs may read differently
is refused, because the seller's program may read it the other way.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final, TypeVar

from solward import InvalidRequest, is_address, read_json, write_json

MOST_ENTRIES: Final = 256
_MOST_TEXT: Final = 8_192
_MOST_SHOWN: Final = 500

Object = dict[str, Any]
T = TypeVar("T")


def json_in_header(text: str, field: str, *, url: bool) -> Object:
    """Decode the JSON object in a header's base64.

    Args:
        url: whether the header has base64url. The padding is optional in either case.

    Raises:
        InvalidRequest: the header has no such object; the message names `field`.
    """
    alphabet = b"-_" if url else b"+/"
    wanted = f"{field} must be a JSON object in {'base64url' if url else 'base64'}"
    bare = text.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    if text not in (bare, padded):
        raise InvalidRequest(wanted)
    try:
        data = base64.b64decode(padded, altchars=alphabet, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(wanted) from None
    # This refuses characters that the decoder would skip, and bits beyond the last byte.
    if base64.b64encode(data, altchars=alphabet).decode() != padded:
        raise InvalidRequest(wanted)
    return object_of(read_json(data, field), field)


def header_of_json(value: Object, *, url: bool) -> str:
    """Encode a JSON object for a header, in base64, or in base64url without padding."""
    data = write_json(value).encode()
    if url:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")
    return base64.b64encode(data).decode()


def object_of(value: object, field: str) -> Object:
    """Return a JSON object; raises `InvalidRequest`, naming `field`, for anything else."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"{field} must be a JSON object")
    return value


def list_of(value: object, field: str, most: int) -> list[Any]:
    """Return a JSON array of at most `most` items, or raise `InvalidRequest`."""
    if not isinstance(value, list) or len(value) > most:
        raise InvalidRequest(f"{field} must be an array of at most {most}")
    return value


def text_of(value: object, field: str, most: int = _MOST_TEXT) -> str:
    """Return text of 1 to `most` bytes, or raise `InvalidRequest`."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= most:
        raise InvalidRequest(f"{field} must be text of 1 to {most} bytes")
    return value


def optional_text(value: object, field: str, most: int = _MOST_TEXT) -> str | None:
    """Return text as `text_of` does, None if it is missing or empty."""
    return None if value in (None, "") else text_of(value, field, most)


def address_of(value: object, field: str) -> str:
    """Return a base58 address of 32 bytes, or raise `InvalidRequest`."""
    if not is_address(value):
        raise InvalidRequest(f"{field} must be a base58 address of 32 bytes")
    return value


def flag_of(value: object, field: str) -> bool:
    """Return true or false, false if it is missing, or raise `InvalidRequest`."""
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"{field} must be true or false")
    return bool(value)


def integer_of(value: object, field: str, least: int, most: int) -> int:
    """Return an integer within bounds, or raise `InvalidRequest`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequest(f"{field} must be an integer from {least} to {most}")
    return value


def entry_or_problem(read: Callable[..., T], *given: Any) -> T | InvalidRequest:
    """Read one entry of a seller's list, or return its error, so that the others can be used."""
    try:
        return read(*given)
    except InvalidRequest as problem:
        return problem


def cut_text(value: object) -> str:
    """Return a seller's text, cut to a length for people; empty if there is none."""
    return value[:_MOST_SHOWN] if isinstance(value, str) else ""
