"""What the SDK misreads of an HTTP request to `/mcp`: some headers, and requests without an id."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_types import PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_PROTOCOL_VERSION

from solward.support import jsontext

Headers = Sequence[tuple[bytes, bytes]]

_ACCEPT: Final = b"accept"
_TYPE: Final = b"content-type"
_VERSION: Final = b"mcp-protocol-version"
_NOTIFIED: Final = "notifications/"
_DATE: Final = re.compile(rb"\d{4}-\d\d-\d\d")


def negotiable(headers: Headers, body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers with one `Accept` and the one `Content-Type` that a message has, and without a
    version that the message is to negotiate.

    Without `Accept` a client takes everything (RFC 9110, 12.5.1). The SDK decides by the header of
    the version alone how a message is read: `initialize` names its version in its body, and a
    message of a later version than the SDK knows may have no envelope, which says its version too.
    """
    accepted = b", ".join(value for name, value in headers if name == _ACCEPT and value.strip())
    version = next((value for name, value in headers if name == _VERSION), b"")
    left_out = {_ACCEPT, _TYPE}
    if version and _is_negotiated(version, body):
        left_out.add(_VERSION)
    kept = [header for header in headers if header[0] not in left_out]
    return [*kept, (_ACCEPT, accepted or b"*/*"), (_TYPE, b"application/json")]


def is_stray(body: bytes) -> bool:
    """Returns whether a message without an id is no notification: its method says so.

    The SDK takes it without an answer, also where it is a request that lacks its id.
    """
    message = _message(body)
    method = message.get("method")
    return "id" not in message and isinstance(method, str) and not method.startswith(_NOTIFIED)


def _message(body: bytes) -> Mapping[str, Any]:
    """A body's JSON object; an empty one where it has none."""
    try:
        message = jsontext.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _is_negotiated(version: bytes, body: bytes) -> bool:
    message = _message(body)
    if message.get("method") == "initialize":
        return True
    is_later = _DATE.fullmatch(version) and version > LATEST_PROTOCOL_VERSION.encode()
    return bool(is_later and message) and not _has_envelope(message.get("params"))


def _has_envelope(params: Any) -> bool:
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta
