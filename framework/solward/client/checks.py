"""What is checked before a request is made."""

from __future__ import annotations

import uuid
from urllib.parse import quote, urlsplit

from solward.errors import InvalidRequest

PREFIX = "/api/v1"


def segment(value: str, field: str) -> str:
    """An id as part of a path; raises `InvalidRequest` where it would change the path."""
    if not isinstance(value, str) or not value or value in (".", ".."):
        raise InvalidRequest(f"{field} must be an id")
    return quote(value, safe="")


def base(url: str) -> str:
    """A service's address without the interface's path; raises `InvalidRequest`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest("url must be an http:// or https:// address")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidRequest("url must have no credentials, no query and no fragment")
    return url.rstrip("/").removesuffix(PREFIX)


def credential(token: str) -> list[tuple[bytes, bytes]]:
    """The header a token is sent in; raises `InvalidRequest`, without the token."""
    # A library's own complaint about a header would quote the token.
    if not token.isprintable() or token != token.strip():
        raise InvalidRequest("token must be printable, without spaces around it")
    return [(b"Authorization", b"Bearer " + token.encode())] if token else []


def idempotency_key(given: str | None) -> str:
    """A key as the header takes it, a new one where none is given; raises `InvalidRequest`."""
    if given is None:
        return str(uuid.uuid4())
    if not 1 <= len(given) <= 255 or not given.isascii() or not given.isprintable():
        raise InvalidRequest("idempotency_key must be 1 to 255 visible ASCII characters")
    return given
