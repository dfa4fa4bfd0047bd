"""Routes that serve declared calls, each with its part of the OpenAPI document: access, parameters,
body and all responses."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from quart import Blueprint

from solward.resources.declare import (
    Call,
    Request,
    answer_example,
    answer_reference,
    fields_of,
    request_example,
    request_schema,
)
from solward.resources.fields import Field, Schema, Texts, camel
from solward.resources.holds import HeldRequest
from solward.resources.schema import JSON, array, media, response_object
from solward.settings.settings import ErrorStatus
from solward_server.http.auth import (
    ADMIN_REQUIRED,
    CROWDED,
    KEY_INVALID,
    KEY_REQUIRED,
    Access,
    Rule,
)
from solward_server.http.body import NOT_JSON, NUL_IN_PATH
from solward_server.http.errors import HTTP_TEXTS, INTERNAL_ERROR
from solward_server.openapi.components import (
    IDEMPOTENCY_KEY,
    NOT_FOUND,
    PATH_PARAMETERS,
    Parameter,
    query,
    shared_reference,
)
from solward_server.openapi.errors import (
    ROLE_NEEDED,
    TOO_MANY_AT_ALL,
    Errors,
    error_responses,
    refusals_of,
)

Operation = dict[str, Any]
# The key of an operation's responses that `ERROR_STATUS=semantic` gives other statuses.
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
    """Return an operation, with the errors that its access and its body imply.

    Args:
        response: the response of status 200, as `success` makes it.
        body: as `request_body` makes it.
        errors: maps of the contract's status to texts or exceptions, the most specific map first.
        may_hold: whether a grant may hold it for a person's decision; the answer is then 202.
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
        described["parameters"] = [shared_reference(each) for each in parameters]
    if body is not None:
        described["requestBody"] = body
    responses: dict[str, Operation] = {"200": response}
    if may_hold:
        responses["202"] = success(
            answer_reference(HeldRequest),
            answer_example(HeldRequest),
            description="The transaction waits for a person.",
        )
    responses |= error_responses(sources, "contract")
    described["responses"] = responses
    if access is not Access.PUBLIC:
        semantic = error_responses(sources, "semantic").items()
        moved = {status: each for status, each in semantic if each != responses.get(status)}
        described[SEMANTIC_RESPONSES] = moved
    return described


def with_statuses(described: Operation, statuses: ErrorStatus) -> None:
    """Replace an operation's responses with those of a service with this `ERROR_STATUS`."""
    semantic = described.pop(SEMANTIC_RESPONSES, {})
    if statuses == "semantic":
        described["responses"] = dict(sorted((described["responses"] | semantic).items()))
        if "description" in described:
            described["description"] = described["description"].replace(" is 500 with ", " has ")


def success(
    schema: Schema, example: Any, *, description: str = "Success.", **more: Any
) -> Operation:
    """Return a JSON response of status 200; several examples come from `schema.examples`.

    Args:
        more: other members of the response; `content` has its other media types.
    """
    content = {JSON: media(schema, example)} | more.pop("content", {})
    return {"description": description, "content": content} | more


def request_body(schema: Schema, example: Any, *, required: bool = True) -> Operation:
    """Return a JSON request body; `example` is None if none is known."""
    return {"required": required, "content": {JSON: media(schema, example)}}


def body_of(kind: type[Request]) -> Operation:
    """Return the JSON body of a declared request."""
    schema = request_schema(kind)
    return request_body(schema, request_example(kind), required="required" in schema)


def _access_errors(access: Access) -> Errors:
    if access in (Access.PUBLIC, Access.SIGNED):
        return {}
    if access is Access.ADMIN:
        return {401: ADMIN_REQUIRED, 403: ROLE_NEEDED, 429: CROWDED}
    return {401: [KEY_REQUIRED, KEY_INVALID], 403: ROLE_NEEDED, 429: [TOO_MANY_AT_ALL, CROWDED]}


_BODY_ERRORS: Errors = {400: NOT_JSON} | {each: HTTP_TEXTS[each] for each in (408, 413, 415)}


H = TypeVar("H", bound=Callable[..., Any])
Handler: TypeAlias = Callable[..., Awaitable[Any]]

_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """A declared call and its implementation.

    Attributes:
        handler: takes the context and the parts of the path.
        rule: the callers to which it is open.
        errors: status -> texts of its errors, besides those implied by its access, its body, the
            fields of its request and the records in its path.
        response: more of the response of status 200, such as its headers; all of it if the call
            declares no answer.
        more: arguments of `operation`.
    """

    call: Call[Any]
    handler: Handler
    rule: Rule
    errors: Errors
    response: Mapping[str, Any]
    more: Mapping[str, Any]

    def describe(self, tag: str) -> Operation:
        """Return the route's part of the document."""
        call, body = self.call, None
        parameters = [PATH_PARAMETERS[part] for part in call.parts]
        if call.body is not None:
            body = body_of(call.body)
        if call.query is not None:
            parameters += map(query_parameter, fields_of(call.query))
        if call.takes_key:
            parameters.append(IDEMPOTENCY_KEY)
        given = {"tag": tag, "parameters": parameters, "body": body, "response": self._response()}
        # Fields have their refusals, and records in the path their 404. The last record in a path
        # belongs to the one before, so its 404 goes first.
        asked = call.request
        wrong = refusals_of(fields_of(asked), in_query=call.body is None) if asked else []
        missing = [NOT_FOUND[part] for part in reversed(call.parts) if part in NOT_FOUND]
        return operation(
            call.id,
            call.does.removesuffix("."),
            access=self.rule.access,
            description=call.about,
            errors=(self.errors, {400: wrong, 404: missing}),
            **given | dict(self.more),
        )

    def _response(self) -> Operation | None:
        kind, listed = self.call.short or self.call.answer, self.call.listed
        if kind is None:
            return dict(self.response) or None
        schema, example = answer_reference(kind), answer_example(kind) | dict(self.call.shown)
        if listed:
            schema, example = response_object({listed: array(schema)}), {listed: [example]}
        return success(schema, example or None, **self.response)


class Routes:
    """The routes of one part of the interface.

    Attributes:
        tag: its name in the document; several parts may have one.
        about: the tag's sentence, unless another part has it.
    """

    def __init__(self, tag: str, about: str = "") -> None:
        self.tag = tag
        self.about = about
        self._routes: list[Route] = []

    def serve(
        self,
        call: Call[Any],
        rule: Rule,
        errors: Errors | None = None,
        *,
        response: Mapping[str, Any] = {},
        **more: Any,
    ) -> Callable[[H], H]:
        """Return a decorator for the function that serves a call; see `Route`."""

        def served(handler: H) -> H:
            self._routes.append(Route(call, handler, rule, errors or {}, response, more))
            return handler

        return served

    def blueprint(self, *given: Any) -> Blueprint:
        """Return the routes as a blueprint of an application.

        Args:
            given: what handlers take before the parts of the path: a `RouteContext`.
        """
        # Named by a call, because several parts may have one tag.
        made = Blueprint(self._routes[0].call.id, __name__)
        for each in self._routes:
            view = each.rule(partial(each.handler, *given))
            path = _PART.sub(r"<\1>", each.call.path)
            made.add_url_rule(path, each.call.id, view, methods=[each.call.method])
        return made

    def paths(self) -> dict[str, dict[str, Operation]]:
        """Return the routes' part of the document."""
        found: dict[str, dict[str, Operation]] = {}
        for each in self._routes:
            path = _PART.sub(lambda part: "{" + camel(part[1]) + "}", each.call.path)
            found.setdefault(path, {})[each.call.method.lower()] = each.describe(self.tag)
        return found


def query_parameter(field: Field) -> Parameter:
    """Return a field of the query as a parameter."""
    more: dict[str, Any] = {"required": True} if field.is_required else {}
    if isinstance(field, Texts):
        # Several values are separated by commas.
        more |= {"style": "form", "explode": False}
    return query(field.json, field.schema(), **more)
