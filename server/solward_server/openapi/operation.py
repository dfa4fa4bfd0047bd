"""One operation of the description: who may call it, what it takes, everything it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solward_server.auth import ADMIN_REQUIRED, KEY_INVALID, KEY_REQUIRED, Access
from solward_server.openapi.parameters import Parameter
from solward_server.openapi.schema import Schema, ref

Operation = dict[str, Any]
Errors = Mapping[int, str | Sequence[str]]

JSON = "application/json"

SECURITY: dict[Access, list[dict[str, list[str]]]] = {
    Access.PUBLIC: [],
    Access.KEY: [{"apiKey": []}, {"adminSecret": []}],
    Access.ADMIN: [{"adminSecret": []}],
}

_MEANINGS = {
    400: "A field is missing or wrong; the text names it.",
    401: "The credential is missing, not known, or not enough.",
    403: "What a key that is confined to one wallet may not do.",
    404: "Not known, or not for this key.",
    408: "The request body took too long to arrive.",
    409: "The first request with this Idempotency-Key still runs.",
    413: "The request body is larger than 64 KiB.",
    422: "The Idempotency-Key was used with another body.",
    429: "Too many requests, or no room in a budget.",
    500: "The text says what failed; `Internal error` is a bug, with its traceback in the log.",
}
_RETRY_AFTER = {
    "description": "Seconds to wait.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
_WWW_AUTHENTICATE = {
    "description": "The scheme.",
    "required": True,
    "schema": {"type": "string", "const": "Bearer"},
}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": _WWW_AUTHENTICATE},
    409: {"Retry-After": _RETRY_AFTER},
}

NOT_JSON = "The request body must be valid JSON"
LARGE = "The request body must not be larger than 64 KiB"
SLOW = "The request body took too long to arrive"
BUG = "Internal error"


def operation(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    access: Access,
    answer: Operation,
    description: str = "",
    parameters: Sequence[Parameter] = (),
    body: Operation | None = None,
    errors: Errors | None = None,
    retry_after: Sequence[int] = (),
) -> Operation:
    """An operation; what every caller of its kind can be answered is added.

    Args:
        answer: the response of status 200, as `answers` makes it.
        body: as `takes` makes it; its own errors (400, 408, 413) are added.
        errors: status -> one or more texts, most telling first.
        retry_after: statuses whose answer says when to come again, beside 409.
    """
    told: dict[int, list[str]] = {}
    for given in (dict(errors or {}), _of_access(access), _of_body(body), _of_bugs(access)):
        for status, texts in given.items():
            told.setdefault(status, []).extend([texts] if isinstance(texts, str) else texts)
    made: Operation = {
        "operationId": operation_id,
        "summary": summary,
        "tags": [tag],
        "security": SECURITY[access],
    }
    if description:
        made["description"] = description
    if parameters:
        made["parameters"] = list(parameters)
    if body is not None:
        made["requestBody"] = body
    responses: dict[str, Operation] = {"200": answer}
    for status in sorted(told):
        responses[str(status)] = failure(status, told[status], status in retry_after)
    return made | {"responses": responses}


def answers(
    schema: Schema, example: Any, *, description: str = "Success.", **more: Any
) -> Operation:
    """A response in JSON; with several examples, `example` maps their names to them."""
    return {"description": description, "content": {JSON: _media(schema, example)}} | more


def several(**examples: Any) -> dict[str, Any]:
    """Examples by name, for a media type with more than one."""
    return {"examples": {name: {"value": value} for name, value in examples.items()}}


def takes(schema: Schema, example: Any, *, required: bool = True) -> Operation:
    """A JSON body; `example` is None where none is known."""
    return {"required": required, "content": {JSON: _media(schema, example)}}


def failure(status: int, texts: Sequence[str], retry_after: bool = False) -> Operation:
    """An error's response: one field, and an example of each text."""
    named = {f"text{place}": {"error": text} for place, text in enumerate(dict.fromkeys(texts), 1)}
    headers = dict(_HEADERS.get(status, {}))
    if retry_after:
        headers["Retry-After"] = _RETRY_AFTER
    made: Operation = {
        "description": _MEANINGS[status],
        "content": {JSON: _media(ref("Error"), several(**named))},
    }
    return made | ({"headers": headers} if headers else {})


def _media(schema: Schema, example: Any) -> Operation:
    if example is None:
        return {"schema": schema}
    if isinstance(example, dict) and list(example) == ["examples"]:
        return {"schema": schema} | example
    return {"schema": schema, "example": example}


def _of_access(access: Access) -> Errors:
    if access is Access.PUBLIC:
        return {}
    return {401: [KEY_REQUIRED, KEY_INVALID] if access is Access.KEY else ADMIN_REQUIRED}


def _of_body(body: Operation | None) -> Errors:
    return {} if body is None else {400: NOT_JSON, 408: SLOW, 413: LARGE}


def _of_bugs(access: Access) -> Errors:
    return {} if access is Access.PUBLIC else {500: BUG}
