"""One operation of the description: who may call it, what it takes, everything it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solward_server.http.auth import ADMIN_REQUIRED, KEY_INVALID, KEY_REQUIRED, Access
from solward_server.openapi.errors import BUG, LARGE, NOT_JSON, SLOW, failure
from solward_server.openapi.media import JSON, media
from solward_server.openapi.parameters import Parameter, shared
from solward_server.openapi.schema import Schema

Operation = dict[str, Any]
Errors = Mapping[int, str | Sequence[str]]

SECURITY: dict[Access, list[dict[str, list[str]]]] = {
    Access.PUBLIC: [],
    Access.KEY: [{"apiKey": []}, {"adminSecret": []}],
    Access.ADMIN: [{"adminSecret": []}],
}


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
) -> Operation:
    """An operation; what every caller of its kind can be answered is added.

    Args:
        answer: the response of status 200, as `answers` makes it.
        body: as `takes` makes it; its own errors (400, 408, 413) are added.
        errors: status -> one or more texts, most telling first.
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
        made["parameters"] = [shared(each) for each in parameters]
    if body is not None:
        made["requestBody"] = body
    responses: dict[str, Operation] = {"200": answer}
    for status in sorted(told):
        responses[str(status)] = failure(status, told[status])
    return made | {"responses": responses}


def answers(
    schema: Schema, example: Any, *, description: str = "Success.", **more: Any
) -> Operation:
    """A response in JSON; with several examples, `example` maps their names to them."""
    return {"description": description, "content": {JSON: media(schema, example)}} | more


def takes(schema: Schema, example: Any, *, required: bool = True) -> Operation:
    """A JSON body; `example` is None where none is known."""
    return {"required": required, "content": {JSON: media(schema, example)}}


def _of_access(access: Access) -> Errors:
    if access is Access.PUBLIC:
        return {}
    return {401: [KEY_REQUIRED, KEY_INVALID] if access is Access.KEY else ADMIN_REQUIRED}


def _of_body(body: Operation | None) -> Errors:
    return {} if body is None else {400: NOT_JSON, 408: SLOW, 413: LARGE}


def _of_bugs(access: Access) -> Errors:
    return {} if access is Access.PUBLIC else {500: BUG}
