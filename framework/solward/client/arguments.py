"""Arguments of calls, checked and converted before a request is made; numbers stay exact."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from solward.resources.declare import Request, fields_of
from solward.resources.fields import (
    Field,
    GrantList,
    Json,
    Moment,
    Number,
    Parameters,
    Texts,
    Time,
    Whole,
    camel,
)
from solward.types.errors import InvalidRequest
from solward.types.record import KEY_FORM, is_idempotency_key

PREFIX = "/api/v1"

Amount: TypeAlias = Decimal | int | str

_PLAIN = re.compile(r"(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})", re.ASCII)


def segment(value: str, field: str) -> str:
    """Return an id as a segment of a path; raise `InvalidRequest` if it would change the path."""
    if not isinstance(value, str) or not value or value in (".", ".."):
        raise InvalidRequest(f"{field} must be an id")
    return quote(value, safe="")


def base_url(url: str) -> str:
    """Return a service's address without the API's path; raises `InvalidRequest`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest("url must be an http:// or https:// address")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidRequest("url must have no credentials, no query and no fragment")
    return url.rstrip("/").removesuffix(PREFIX)


def authorization(token: str) -> list[tuple[bytes, bytes]]:
    """Return the header with the token; raises `InvalidRequest`, whose text omits the token."""
    # httpx would quote the token in its error.
    if not token.isprintable() or token != token.strip():
        raise InvalidRequest("token must be printable, without spaces around it")
    return [(b"Authorization", b"Bearer " + token.encode())] if token else []


def idempotency_key(key: str | None) -> str:
    """Return the given Idempotency-Key if valid, or a new one for None; raises `InvalidRequest`."""
    if key is None:
        return str(uuid.uuid4())
    if not is_idempotency_key(key):
        raise InvalidRequest(f"idempotency_key must be {KEY_FORM}; nothing was sent")
    return key


def exact_number(value: Amount, field: str = "amount") -> Decimal | int:
    """Return an amount as a JSON number.

    Raises:
        TypeError: the amount is a float, or not a number.
        InvalidRequest: the text is not a plain decimal number, or the number is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, Decimal | int | str):
        raise TypeError(
            f"{field} must be a Decimal, an int or a str, not a {type(value).__name__}: "
            "floats are not exact"
        )
    if isinstance(value, str):
        if not _PLAIN.fullmatch(value.strip()):
            raise InvalidRequest(
                f"{field} must be a number such as 0.5, without a sign; got {value!r}"
            )
        return Decimal(value.strip())
    if isinstance(value, Decimal) and not value.is_finite():
        raise InvalidRequest(f"{field} must be a finite number")
    return value


def optional_number(value: Amount | None, field: str = "amount") -> Decimal | int | None:
    """Return `exact_number` of an amount; None stays None, and the service uses its default."""
    return None if value is None else exact_number(value, field)


def moment_text(value: datetime | str | None, field: str) -> str | None:
    """Return a time as text; raises `InvalidRequest` if the time has no time zone."""
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise InvalidRequest(f"{field} must be a time with a zone")
    return value.astimezone(UTC).isoformat()


def refuse_floats(value: Any, field: str) -> None:
    """Raise `TypeError`, naming the field, for a float at any depth."""
    if isinstance(value, float):
        raise TypeError(f"{field} must be a Decimal, an int or a str: floats are not exact")
    if isinstance(value, Mapping):
        for name, item in value.items():
            refuse_floats(item, f"{field}.{name}" if field else str(name))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            refuse_floats(item, f"{field}[{place}]")


def without_floats(value: Any) -> Any:
    """Return a language model's options with each float as a Decimal."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {name: without_floats(item) for name, item in value.items()}
    return [without_floats(item) for item in value] if isinstance(value, list | tuple) else value


def request_fields(kind: type[Request], **given: Any) -> dict[str, Any]:
    """Return a request's fields as JSON, without those that are None: the service has defaults.

    Raises:
        TypeError: an amount is a float.
        InvalidRequest: an amount is not a number, or a time has no time zone.
    """
    sent = {each.json: _json_value(each, given[each.name]) for each in fields_of(kind)}
    return {name: value for name, value in sent.items() if value is not None}


def _json_value(field: Field, value: Any) -> Any:
    match field:
        case Whole():
            return value
        case Number():
            return optional_number(value, field.name)
        case Time() | Moment():
            return moment_text(value, field.name)
        case Parameters():
            refuse_floats(value, field.name)
            return value
        case Json() if field.floats:
            return without_floats(value)
        case Texts() | GrantList():
            if isinstance(value, str):
                # A string is a sequence too, and its items would be its letters.
                raise InvalidRequest(f"{field.name} must be a list")
            return None if value is None else [*value]
        case _:
            return value


def json_fields(**fields: Any) -> dict[str, Any]:
    """Return a JSON object of the fields that are not None, with the API's names."""
    return {camel(name): value for name, value in fields.items() if value is not None}
