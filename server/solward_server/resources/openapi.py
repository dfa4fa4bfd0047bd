"""`GET /openapi.json`: the OpenAPI 3.1 document; tests/server compare it with every response."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quart import Blueprint, Quart, Response
from werkzeug.routing import Rule

from solward import __version__
from solward.plugins import Registry
from solward.resources.declare import COMPONENTS, answer_schema, with_settings
from solward.resources.fields import Setting
from solward.settings import Settings
from solward.support import jsontext
from solward.support.webhook_signature import SIGNATURE
from solward.types.roles import Role
from solward_server.http.auth import Access, public, rule_of
from solward_server.http.body import RouteFields, RoutesFields, know_fields
from solward_server.openapi.components import SCHEMAS
from solward_server.openapi.errors import shared_responses
from solward_server.openapi.operation import operation, success, with_statuses
from solward_server.openapi.parameters import IDEMPOTENCY_KEY, PARAMETERS
from solward_server.resources import (
    ROUTES,
    agents,
    docs,
    mcp,
    metrics,
    operations,
    skills,
)

_VARIABLE = re.compile(r"<(\w+?)(_id)?>")
_SKILL = re.compile(r"(/wallets/.*/skills)/\w+$")

_ABOUT = """\
Wallets that autonomous agents can use and cannot empty.

Bodies are JSON objects, and an absent body counts as `{}`. A field that a body does not know, or a
parameter that the query of a change does not know, is 400, and nothing is done. Amounts are exact:
more decimals than the unit has is 400. Every error is `{"error": "text"}`. Answers carry
`Cache-Control: no-store`.
"""
_SEMANTIC = """
Statuses of errors are semantic (`ERROR_STATUS`). Where the contract has another one, the header
`Solward-Contract-Status` says it.
"""
_TAGS = {"tokens": "Tokens of a wallet's own.", "mcp": "The same skills for MCP clients."}


_OWN_ROUTE = operation(
    "getDescription",
    "This description, with the skills and providers that are loaded",
    tag="health",
    access=Access.PUBLIC,
    response=success(
        {"type": "object", "description": "OpenAPI 3.1."},
        {"openapi": "3.1.0", "info": {}, "paths": {}, "components": {}},
    ),
)


def blueprint(
    app: Quart, registry: Callable[[], Registry], prefix: str, settings: Settings
) -> Blueprint:
    """`GET /openapi.json`, which also says what fields bodies are compared with.

    Args:
        app: has all other routes.
        registry: gives the plugins as they are loaded now.
    """
    routes = Blueprint("openapi", __name__)
    loaded = registry()
    described = _described(app, loaded, prefix, settings)
    know_fields(app, described.fields)
    made = loaded, described.text

    @routes.get("/openapi.json")
    @public
    async def openapi() -> Response:
        nonlocal made
        loaded, text = made
        if registry() is not loaded:
            loaded = registry()
            text = _described(app, loaded, prefix, settings).text
            made = loaded, text
        return Response(text, mimetype="application/json")

    return routes


@dataclass(frozen=True, slots=True)
class _Described:
    """A document as it is served, and the fields that it describes."""

    text: str
    fields: RoutesFields


# Documents by all that they depend on: writing one takes 0.1 s, and services with the same plugins
# have the same. Both parts are immutable, so services may share them.
_DESCRIBED: dict[Hashable, _Described] = {}
_MAX_DESCRIBED = 8


def _described(app: Quart, registry: Registry, prefix: str, settings: Settings) -> _Described:
    roles = least_roles(app)
    routes = frozenset(
        (method, rule.rule) for rule in app.url_map.iter_rules() for method in rule.methods or ()
    )
    shown = (settings.error_status, *(each.of(settings) for each in Setting))
    key = (described_by(registry), prefix, frozenset(roles.items()), routes, shown)
    found = _DESCRIBED.get(key)
    if found is None:
        document = describe(registry, prefix, roles, settings)
        fields = MappingProxyType(_routes_fields(app, document))
        found = _Described(jsontext.dumps(document), fields)
        if len(_DESCRIBED) >= _MAX_DESCRIBED:
            _DESCRIBED.clear()
        _DESCRIBED[key] = found
    return found


def described_by(registry: Registry) -> Hashable:
    """Everything of a registry that `describe` reads: two that have this in common have one
    document.

    The names of providers, and each skill's whole declaration with its distribution.
    """
    skills = tuple(repr((each.spec, each.distribution)) for each in registry.skills.values())
    return skills, tuple(sorted(registry.providers))


def least_roles(app: Quart) -> dict[tuple[str, str], Role]:
    """(path, method) -> the least role of an admin credential, as the routes declare it; paths are
    written as in the document, and of skills there is one."""
    found = {}
    for rule in app.url_map.iter_rules():
        role = rule_of(app.view_functions[rule.endpoint]).role
        for method in rule.methods or ():
            if role is not None:
                found[_path_of(rule), method.lower()] = role
    return found


def _routes_fields(app: Quart, document: Mapping[str, Any]) -> RoutesFields:
    """Of each route that is described; a skill's is by its name alone."""
    found = {}
    for rule in app.url_map.iter_rules():
        for method in rule.methods or ():
            described = document["paths"].get(_path_of(rule), {}).get(method.lower())
            if described is None:
                continue
            body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
            schema = _target(document, body.get("schema", {}))
            parameters = [_target(document, each) for each in described.get("parameters", ())]
            found[method, rule.rule] = RouteFields(
                body=tuple(sorted(schema.get("properties", {}))) if schema else None,
                query=tuple(sorted(each["name"] for each in parameters if each["in"] == "query")),
                takes_key=IDEMPOTENCY_KEY in parameters,
            )
    return found


def _target(document: Mapping[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """What a reference into the document's components refers to; anything else as it is."""
    if "$ref" not in node:
        return node
    _, _, kind, name = node["$ref"].split("/")
    found: dict[str, Any] = document["components"][kind][name]
    return found


def _path_of(rule: Rule) -> str:
    return _VARIABLE.sub(_as_parameter, rule.rule)


def _as_parameter(variable: re.Match[str]) -> str:
    return "{" + variable[1] + ("Id" if variable[2] else "") + "}"


def describe(
    registry: Registry,
    prefix: str,
    roles: Mapping[tuple[str, str], Role] = MappingProxyType({}),
    configured: Settings | None = None,
) -> dict[str, Any]:
    """The document of a service with these plugins; its API routes are under `prefix`.

    Args:
        configured: the settings; their defaults where it is None.
    """
    configured = configured or Settings.model_construct()
    statuses = configured.error_status
    api_paths = {"/openapi.json": {"get": _OWN_ROUTE}} | operations.PATHS
    for routes in ROUTES:
        for path, methods in routes.paths().items():
            api_paths[path] = api_paths.get(path, {}) | methods
    api_paths |= skills.skill_paths(registry.skills.values())
    api_paths |= agents.paths(registry.providers)
    parts = (*ROUTES, docs.routes, metrics.routes)
    tags = {part.tag: part.about for part in parts if part.about} | _TAGS
    root_paths = mcp.ROOT_PATHS | docs.routes.paths() | metrics.routes.paths()
    paths = {prefix + path: methods for path, methods in api_paths.items()} | root_paths
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Solward",
            "version": __version__,
            "description": _ABOUT + (_SEMANTIC if statuses == "semantic" else ""),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "x-error-status": statuses,
        },
        # Relative to where the document is: only its reader knows the service's address.
        "servers": [{"url": "/", "description": "The service that serves this document."}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "components": {
            "schemas": {name: answer_schema(kind) for name, kind in COMPONENTS.items()} | SCHEMAS,
            "parameters": PARAMETERS,
            "responses": shared_responses(statuses),
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, `sk-` and 32 hexadecimal digits.",
                },
                "signature": {
                    "type": "apiKey",
                    "in": "header",
                    "name": SIGNATURE,
                    "description": "HMAC-SHA-256 with `APPROVAL_WEBHOOK_SECRET`.",
                },
                "adminSecret": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The admin secret, `API_SECRET`; it opens every route.",
                },
                "adminCredential": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An admin credential, `sa-` and 48 hexadecimal digits; its role"
                    " says what it opens (`x-least-role`).",
                },
            },
        },
    }
    # A copy: roles are written into the paths, which all documents share.
    document = with_settings(document, configured)
    for path, methods in document["paths"].items():
        generic = _SKILL.sub(r"\1/{name}", path)
        for method, described in methods.items():
            with_statuses(described, statuses)
            if (generic, method) in roles:
                described["x-least-role"] = roles[generic, method].value
    return document
