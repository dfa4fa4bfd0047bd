"""Routes that serve declared calls, each with its part of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from quart import Blueprint

from solward.resources.declare import Call, answer_example, answer_reference, fields_of
from solward.resources.fields import Field, Texts, camel
from solward.resources.schema import array, response_object
from solward_server.http.auth import Rule
from solward_server.openapi.errors import Errors, refusals_of
from solward_server.openapi.operation import Operation, body_of, operation, success
from solward_server.openapi.parameters import (
    IDEMPOTENCY_KEY,
    NOT_FOUND,
    PATH_PARAMETERS,
    Parameter,
    query,
)

H = TypeVar("H", bound=Callable[..., Any])
Handler: TypeAlias = Callable[..., Awaitable[Any]]

_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """A call as it is served.

    Attributes:
        handler: takes the context and the parts of the path.
        rule: who may call it.
        errors: status -> texts of its errors, beside those that its access, its body, the fields
            of its request and the records that its path names imply.
        response: more of the response of status 200, such as its headers; all of it where the call
            declares no answer.
        more: arguments of `openapi.operation.operation`.
    """

    call: Call[Any]
    handler: Handler
    rule: Rule
    errors: Errors
    response: Mapping[str, Any]
    more: Mapping[str, Any]

    def described(self, tag: str) -> Operation:
        """Its part of the document."""
        call, body = self.call, None
        parameters = [PATH_PARAMETERS[part] for part in call.parts]
        if call.body is not None:
            body = body_of(call.body)
        if call.query is not None:
            parameters += map(queried, fields_of(call.query))
        if call.takes_key:
            parameters.append(IDEMPOTENCY_KEY)
        given = {"tag": tag, "parameters": parameters, "body": body, "response": self._response()}
        return operation(
            call.id,
            call.does.removesuffix("."),
            access=self.rule.access,
            description=call.about,
            errors=(self.errors, self._implied()),
            **given | dict(self.more),
        )

    def _implied(self) -> Errors:
        """How the fields of its request are refused, and records that its path names."""
        asked = self.call.request
        wrong = refusals_of(fields_of(asked), in_query=self.call.body is None) if asked else []
        # The last that a path names is of the one before.
        missing = [NOT_FOUND[part] for part in reversed(self.call.parts) if part in NOT_FOUND]
        return {400: wrong, 404: missing}

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
        tag: what the document calls it; several parts may have one.
        about: the tag's sentence, where no other part has it.
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
        """A decorator of the function that serves a call; see `Route`."""

        def served(handler: H) -> H:
            self._routes.append(Route(call, handler, rule, errors or {}, response, more))
            return handler

        return served

    def blueprint(self, *given: Any) -> Blueprint:
        """The routes of an application.

        Args:
            given: what handlers take before the parts of the path: a `RouteContext`.
        """
        # Not the tag, which several parts may have.
        made = Blueprint(self._routes[0].call.id, __name__)
        for each in self._routes:
            view = each.rule(partial(each.handler, *given))
            path = _PART.sub(r"<\1>", each.call.path)
            made.add_url_rule(path, each.call.id, view, methods=[each.call.method])
        return made

    def paths(self) -> dict[str, dict[str, Operation]]:
        """Their part of the document."""
        found: dict[str, dict[str, Operation]] = {}
        for each in self._routes:
            path = _PART.sub(lambda part: "{" + camel(part[1]) + "}", each.call.path)
            found.setdefault(path, {})[each.call.method.lower()] = each.described(self.tag)
        return found


def queried(field: Field) -> Parameter:
    """A field of the query."""
    more: dict[str, Any] = {"required": True} if field.is_required else {}
    if isinstance(field, Texts):
        # With commas between them.
        more |= {"style": "form", "explode": False}
    return query(field.json, field.schema(), **more)
