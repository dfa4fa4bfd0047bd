"""One operation of the document: access, parameters, body, every response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from solward.resources.declare import (
    Request,
    answer_example,
    answer_reference,
    request_example,
    request_schema,
)
from solward.resources.fields import Schema
from solward.resources.holds import HeldRequest
from solward.resources.schema import JSON, media
from solward.settings.settings import ErrorStatus
from solward_server.http.auth import ADMIN_REQUIRED, CROWDED, KEY_INVALID, KEY_REQUIRED, Access
from solward_server.http.body import NOT_JSON, NUL_IN_PATH
from solward_server.http.errors import HTTP_TEXTS, INTERNAL_ERROR
from solward_server.openapi.errors import (
    ROLE_NEEDED,
    TOO_MANY_AT_ALL,
    Errors,
    error_responses,
)
from solward_server.openapi.parameters import Parameter, shared

Operation = dict[str, Any]
# Where an operation has the responses whose statuses are other ones under `ERROR_STATUS=semantic`.
SEMANTIC_RESPONSES = "x-semantic-responses"

SECURITY: dict[Access, list[dict[str, list[str]]]] = {
    Access.PUBLIC: [],
    Access.SIGNED: [{"signature": []}],
    Access.KEY: [{"apiKey": []}, {"adminSecret": []}, {"adminCredential": []}],
    Access.ADMIN: [{"adminSecret": []}, {"adminCredential": []}],
}


def operation(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    access: Access,
    response: Operation,
    description: str = "",
    parameters: Sequence[Parameter] = (),
    body: Operation | None = None,
    errors: Sequence[Errors] = (),
    may_hold: bool = False,
) -> Operation:
    """An operation; the errors that its access and its body imply are added.

    Args:
        response: the response of status 200, as `success` makes it.
        body: as `request_body` makes it.
        errors: each the contract's status -> one or more texts, or exceptions; the most specific
            first.
        may_hold: a grant may make it wait for a person, which is answered with 202.
    """
    has_path = any(each["in"] == "path" for each in parameters)
    sources = (
        *errors,
        _access_errors(access),
        _BODY_ERRORS if body is not None else {},
        {400: NUL_IN_PATH} if has_path else {},
        {} if access is Access.PUBLIC else {500: INTERNAL_ERROR},
    )
    described: Operation = {
        "operationId": operation_id,
        "summary": summary,
        "tags": [tag],
        "security": SECURITY[access],
    }
    if description:
        described["description"] = description
    if parameters:
        described["parameters"] = [shared(each) for each in parameters]
    if body is not None:
        described["requestBody"] = body
    responses: dict[str, Operation] = {"200": response}
    if may_hold:
        responses["202"] = success(
            answer_reference(HeldRequest),
            answer_example(HeldRequest),
            description="It waits for a person.",
        )
    responses |= error_responses(sources, "contract")
    described["responses"] = responses
    if access is not Access.PUBLIC:
        semantic = error_responses(sources, "semantic").items()
        moved = {status: each for status, each in semantic if each != responses.get(status)}
        described[SEMANTIC_RESPONSES] = moved
    return described


def with_statuses(described: Operation, statuses: ErrorStatus) -> None:
    """Give an operation the responses of a service with this `ERROR_STATUS`."""
    semantic = described.pop(SEMANTIC_RESPONSES, {})
    if statuses == "semantic":
        described["responses"] = dict(sorted((described["responses"] | semantic).items()))
        if "description" in described:
            described["description"] = described["description"].replace(" is 500 with ", " has ")


def success(
    schema: Schema, example: Any, *, description: str = "Success.", **more: Any
) -> Operation:
    """A JSON response of status 200; several examples come from `schema.examples`.

    Args:
        more: of the response; `content` are other forms of the same.
    """
    content = {JSON: media(schema, example)} | more.pop("content", {})
    return {"description": description, "content": content} | more


def request_body(schema: Schema, example: Any, *, required: bool = True) -> Operation:
    """A JSON request body; `example` is None where none is known."""
    return {"required": required, "content": {JSON: media(schema, example)}}


def body_of(kind: type[Request]) -> Operation:
    """The JSON body of a declared request."""
    schema = request_schema(kind)
    return request_body(schema, request_example(kind), required="required" in schema)


def _access_errors(access: Access) -> Errors:
    if access in (Access.PUBLIC, Access.SIGNED):
        return {}
    if access is Access.ADMIN:
        return {401: ADMIN_REQUIRED, 403: ROLE_NEEDED, 429: CROWDED}
    return {401: [KEY_REQUIRED, KEY_INVALID], 403: ROLE_NEEDED, 429: [TOO_MANY_AT_ALL, CROWDED]}


_BODY_ERRORS: Errors = {400: NOT_JSON} | {each: HTTP_TEXTS[each] for each in (408, 413, 415)}
