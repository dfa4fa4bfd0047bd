"""`GET /openapi.json`: the OpenAPI 3.1 document, which tests/server compare with every response;
and `/docs`: the document as a page that loads nothing from elsewhere."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quart import Blueprint, Quart, Response
from werkzeug.exceptions import NotFound
from werkzeug.routing import Rule

from solward import __version__
from solward.plugins import Registry
from solward.resources.declare import COMPONENTS, Call, answer_schema, with_settings
from solward.resources.fields import Setting
from solward.settings import Settings
from solward.support import jsontext
from solward.support.webhook_signature import SIGNATURE
from solward.types.errors import ConfigError
from solward.types.roles import Role
from solward_server.http.auth import Access, public, rule_of
from solward_server.http.body import RouteFields, RoutesFields, set_route_fields
from solward_server.openapi.components import IDEMPOTENCY_KEY, PARAMETERS, SCHEMAS
from solward_server.openapi.errors import shared_responses
from solward_server.openapi.route import Routes, operation, success, with_statuses
from solward_server.resources import (
    ROUTES,
    agents,
    mcp,
    metrics,
    operations,
    skills,
)

# The rest of Swagger UI's package (editors, source maps) is not served.
FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
START = "start.js"

# Credentials are typed into the page, so it may load from and send to this service only. Swagger UI
# needs inline styles, and its icons are data URLs.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

# URLs are relative: a proxy may serve the service under a path.
_PAGE = f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Solward API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" sizes="32x32" href="docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>The page needs JavaScript; the description itself is at api/v1/openapi.json.</noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/{START}"></script>
</body>
</html>
"""
# Credentials are not stored, and no external validator is called.
_START_SCRIPT = """\
SwaggerUIBundle({
  url: "api/v1/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  validatorUrl: null,
});
"""


_SHOW: Call[Any] = Call(
    "getDocs",
    "GET /docs",
    "This description as an interactive page.",
    None,
    name=None,
    about="The page loads files only from this service.",
)
_FILE: Call[Any] = Call(
    "getDocsFile", "GET /docs/{file}", "A file that the page loads.", None, name=None
)

page = Routes("docs", "This description as a page.")
"""Routes at the root, whose handlers take `folder()`."""


def _text_response(description: str, *kinds: str) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    return {"description": description, "content": content}


@page.serve(_SHOW, public, response=_text_response("The page.", "text/html"))
async def show_page(_folder: Path) -> Response:
    return _add_policy(Response(_PAGE, mimetype="text/html"))


@page.serve(_FILE, public, response=_text_response("The file.", *FILES.values()))
async def page_file(folder: Path, file: str) -> Response:
    if file == START:
        return _add_policy(Response(_START_SCRIPT, mimetype="text/javascript"))
    if file not in FILES:
        raise NotFound
    content = await asyncio.to_thread(_read_file, folder / file)
    return _add_policy(Response(content, mimetype=FILES[file]))


# Cached, because strangers may ask for it on every connection at once.
@functools.cache
def _read_file(path: Path) -> bytes:
    return path.read_bytes()


def _add_policy(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def folder() -> Path:
    """Return the folder of the page's files; raises `ConfigError` if the package is missing."""
    # The package is not imported: only its static files are needed.
    found = importlib.util.find_spec("fastapi_swagger")
    if found is None or found.origin is None:
        raise ConfigError("The package fastapi-swagger is not installed; /docs needs its files")
    return Path(found.origin).parent / "resources"


_VARIABLE = re.compile(r"<(\w+?)(_id)?>")
_SKILL = re.compile(r"(/wallets/.*/skills)/\w+$")

_ABOUT = """\
Wallets that autonomous agents can use and cannot empty.

Bodies are JSON objects, and an absent body counts as `{}`. An unknown field of a body, or an
unknown query parameter of a change, is 400, and nothing is done. Amounts are exact: an amount with
more decimals than its asset is 400. Every error is `{"error": "text"}`. Answers carry
`Cache-Control: no-store`.
"""
_SEMANTIC = """
Statuses of errors are semantic (`ERROR_STATUS`). If the contract has another status, the header
`Solward-Contract-Status` has it.
"""
_TAGS = {"tokens": "Tokens that a wallet launches.", "mcp": "Skills as tools for MCP clients."}


_OWN_ROUTE = operation(
    "getDescription",
    "This API description, with the loaded skills and providers",
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
    """Return the route `GET /openapi.json`, and let bodies be checked against its fields.

    Args:
        app: has all other routes.
        registry: returns the plugins that are loaded now.
    """
    routes = Blueprint("openapi", __name__)
    loaded = registry()
    described = _document_of(app, loaded, prefix, settings)
    set_route_fields(app, described.fields)
    made = loaded, described.text

    @routes.get("/openapi.json")
    @public
    async def openapi() -> Response:
        nonlocal made
        loaded, text = made
        if registry() is not loaded:
            loaded = registry()
            text = _document_of(app, loaded, prefix, settings).text
            made = loaded, text
        return Response(text, mimetype="application/json")

    return routes


@dataclass(frozen=True, slots=True)
class _Document:
    """The served text of a document, and the fields that it describes."""

    text: str
    fields: RoutesFields


# Documents by everything that they depend on. Writing one takes 0.1 s, and services with the same
# plugins share one, which they can because both of its parts are immutable.
_DOCUMENTS: dict[Hashable, _Document] = {}
_MAX_DOCUMENTS = 8


def _document_of(app: Quart, registry: Registry, prefix: str, settings: Settings) -> _Document:
    roles = lowest_roles(app)
    routes = frozenset(
        (method, rule.rule) for rule in app.url_map.iter_rules() for method in rule.methods or ()
    )
    shown = (settings.error_status, *(each.of(settings) for each in Setting))
    key = (document_inputs(registry), prefix, frozenset(roles.items()), routes, shown)
    found = _DOCUMENTS.get(key)
    if found is None:
        document = describe(registry, prefix, roles, settings)
        fields = MappingProxyType(_routes_fields(app, document))
        found = _Document(jsontext.dumps(document), fields)
        if len(_DOCUMENTS) >= _MAX_DOCUMENTS:
            _DOCUMENTS.clear()
        _DOCUMENTS[key] = found
    return found


def document_inputs(registry: Registry) -> Hashable:
    """Return all parts of a registry that `describe` reads: equal results give equal documents.

    The names of providers, and each skill's whole declaration with its distribution.
    """
    skills = tuple(repr((each.spec, each.distribution)) for each in registry.skills.values())
    return skills, tuple(sorted(registry.providers))


def lowest_roles(app: Quart) -> dict[tuple[str, str], Role]:
    """Return (path, method) of the document -> the lowest role that an admin credential needs."""
    found = {}
    for rule in app.url_map.iter_rules():
        role = rule_of(app.view_functions[rule.endpoint]).role
        for method in rule.methods or ():
            if role is not None:
                found[_path_of(rule), method.lower()] = role
    return found


def _routes_fields(app: Quart, document: Mapping[str, Any]) -> RoutesFields:
    """Return the fields of each described route; a skill's own route is not among them."""
    found = {}
    for rule in app.url_map.iter_rules():
        for method in rule.methods or ():
            described = document["paths"].get(_path_of(rule), {}).get(method.lower())
            if described is None:
                continue
            body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
            schema = _resolve(document, body.get("schema", {}))
            parameters = [_resolve(document, each) for each in described.get("parameters", ())]
            found[method, rule.rule] = RouteFields(
                body=tuple(sorted(schema.get("properties", {}))) if schema else None,
                query=tuple(sorted(each["name"] for each in parameters if each["in"] == "query")),
                takes_key=IDEMPOTENCY_KEY in parameters,
            )
    return found


def _resolve(document: Mapping[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Return the component that a reference names, or the node itself if it is no reference."""
    if "$ref" not in node:
        return node
    _, _, kind, name = node["$ref"].split("/")
    found: dict[str, Any] = document["components"][kind][name]
    return found


def _path_of(rule: Rule) -> str:
    return _VARIABLE.sub(lambda part: f"{{{part[1]}{'Id' if part[2] else ''}}}", rule.rule)


def describe(
    registry: Registry,
    prefix: str,
    roles: Mapping[tuple[str, str], Role] = MappingProxyType({}),
    configured: Settings | None = None,
) -> dict[str, Any]:
    """Return the document of a service with these plugins; its API routes are under `prefix`.

    Args:
        configured: the settings; None for their defaults.
    """
    configured = configured or Settings.model_construct()
    statuses = configured.error_status
    api_paths = {"/openapi.json": {"get": _OWN_ROUTE}} | operations.PATHS
    for routes in ROUTES:
        for path, methods in routes.paths().items():
            api_paths[path] = api_paths.get(path, {}) | methods
    api_paths |= skills.skill_paths(registry.skills.values())
    api_paths |= agents.paths(registry.providers)
    parts = (*ROUTES, page, metrics.routes)
    tags = {part.tag: part.about for part in parts if part.about} | _TAGS
    root_paths = mcp.ROOT_PATHS | page.paths() | metrics.routes.paths()
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
        # Relative to the document, because only its reader knows the service's address.
        "servers": [{"url": "/", "description": "The service that serves this document."}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "components": {
            # Sorted by name, because the order of declarations depends on imports.
            "schemas": {name: answer_schema(kind) for name, kind in sorted(COMPONENTS.items())}
            | SCHEMAS,
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
                    " decides which routes it opens (`x-least-role`).",
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
