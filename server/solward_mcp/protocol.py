"""Messages and errors of the protocol, without the SDK, whose releases 1 and 2 write them
differently."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, TypeGuard

from solward.support import jsontext

# JSON-RPC 2.0, 5.1.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

# Fields of a request, and of a tool call's params; any other would have no effect.
_REQUEST: Final = frozenset({"id", "jsonrpc", "method", "params"})
_CALL: Final = frozenset({"_meta", "arguments", "name", "task"})

IDEMPOTENCY_META: Final = "solward/idempotencyKey"

EXACT_DIGITS: Final = 15
"""The maximum number of digits that a float always represents exactly."""

Json = dict[str, Any]
"""An object of the protocol, in the protocol's own fields."""


class ProtocolError(Exception):
    """The error response of a request; its text is the message."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def refusal_of(data: bytes, max_bytes: int) -> Json | None:
    """Return the error response to data that must not reach the SDK; None if it is a valid message.

    The SDK uses the last value of a repeated key, and never answers requests whose id has a type
    that it does not know. The response to a notification has no `id`; it is sent only over HTTP,
    which needs a response to each request.
    """
    try:
        message = jsontext.read(data, max_bytes=max_bytes, has_nul=True)
    except ValueError as error:
        return _error_response(PARSE_ERROR, f"Parse error: {error}", _response_id(data))
    code, name, said = INVALID_REQUEST, "Invalid request", _message_fault(message)
    if said is None:
        code, name, said = INVALID_PARAMS, "Invalid params", _meta_fault(message)
    if said is None:
        return None
    named = message if isinstance(message, dict) else {}
    id_ = named.get("id")
    is_notification = "id" not in named and isinstance(named.get("method"), str)
    answered = {} if is_notification or _is_response(named) else {"id": id_ if is_id(id_) else None}
    return _error_response(code, f"{name}: {said}", answered)


class _Members(list[tuple[str, Any]]):
    """An object's members, including those with the same name."""


def _response_id(data: bytes) -> Json:
    """Return the `id` member of the response to an invalid message; empty for a notification."""
    message: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        message = json.loads(data, object_pairs_hook=_Members)
    if not isinstance(message, _Members):
        return {"id": None}
    ids = [value for name, value in message if name == "id"]
    if not ids and any(name == "method" for name, _ in message):
        return {}
    known = len(ids) == 1 and is_id(ids[0]) and jsontext.explain_unfit(ids[0]) is None
    return {"id": ids[0] if known else None}


def _message_fault(message: Any) -> str | None:
    if not isinstance(message, dict):
        return "a message is one JSON object; the messages of a batch are sent one by one"
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if _is_response(message):
        return _response_fault(message)
    if not isinstance(message.get("method"), str):
        return "method must be a string"
    if unknown := message.keys() - _REQUEST:
        return f"{min(unknown)} is none of: {', '.join(sorted(_REQUEST))}"
    if "id" in message and not is_id(message["id"]):
        return "id must be a string or a whole number; a notification has none"
    params = message.get("params")
    if not isinstance(params, dict | None):
        return "params must be an object"
    if params and message["method"] == "tools/call" and (unknown := params.keys() - _CALL):
        return f"params.{min(unknown)} is none of: {', '.join(sorted(_CALL))}"
    rounded = _rounded(params, "params")
    return None if rounded is None else too_many_digits(rounded)


def _is_response(message: Json) -> bool:
    return "method" not in message and not message.keys().isdisjoint(("result", "error"))


def _response_fault(message: Json) -> str | None:
    """Return the fault of a client's response, whose content the SDK would repeat in an error."""
    if not is_id(message.get("id")):
        return "id of a response must be the id of the request"
    for name in ("result", "error"):
        if not isinstance(message.get(name, {}), dict):
            return f"{name} must be an object"
    error = message.get("error", {"code": 0, "message": ""})
    if type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        return "error must have a whole number code and a string message"
    rounded = _rounded({name: message[name] for name in ("result", "error") if name in message}, "")
    return None if rounded is None else too_many_digits(rounded)


def _meta_fault(message: Json) -> str | None:
    """Return the fault of a Solward key in `_meta`, or None; other keys are not checked."""
    meta = (message.get("params") or {}).get("_meta")
    for key in meta if isinstance(meta, dict) else ():
        if key.lower().startswith("solward/") and key != IDEMPOTENCY_META:
            return f"params._meta {key} is unknown; the only Solward key is {IDEMPOTENCY_META}"
    return None


def _rounded(value: Any, path: str) -> str | None:
    """Return the path of the first fraction that changes if the SDK parses it as a float."""
    if isinstance(value, Decimal):
        return None if Decimal(repr(float(value))) == value else path
    if isinstance(value, dict):
        members: Iterable[tuple[str | int, Any]] = value.items()
    else:
        members = enumerate(value) if isinstance(value, list) else ()
    found = (_rounded(each, jsontext.member(path, key)) for key, each in members)
    return next((name for name in found if name is not None), None)


def too_many_digits(field: str) -> str:
    """Return the error's text for a number that a float cannot represent."""
    return (
        f"{field} must have at most {EXACT_DIGITS} digits and be less than 1.8e308: JSON numbers"
        " of MCP carry no more exactly"
    )


def cancelled_id(message: Json) -> str | int | None:
    """Return the id of the request that a notification cancels; None for other messages."""
    if message.get("method") != "notifications/cancelled":
        return None
    id_ = (message.get("params") or {}).get("requestId")
    return id_ if is_id(id_) else None


def is_id(value: object) -> TypeGuard[str | int]:
    """Return whether a value may be a request's id."""
    return isinstance(value, str) or type(value) is int


def _error_response(code: int, message: str, answered: Json) -> Json:
    return {"jsonrpc": "2.0", **answered, "error": {"code": code, "message": message}}
