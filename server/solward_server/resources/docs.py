"""The service's description, and the page that shows it; both work without a network."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

from quart import Blueprint, Response
from werkzeug.exceptions import NotFound

from solward import jsontext
from solward.errors import ConfigError
from solward_server.http.auth import public
from solward_server.http.edge import Edge
from solward_server.openapi import describe

# Everything else in Swagger UI's package (editors, source maps) stays unserved.
FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-16x16.png": "image/png",
    "favicon-32x32.png": "image/png",
}
START = "start.js"

# The page holds whatever credential is typed into it: nothing may come from, or go, elsewhere.
# Swagger UI writes style attributes, and its icons are data addresses.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

# Addresses are relative: a proxy may serve all of this under a path of its own.
_PAGE = f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Solward API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" sizes="32x32" href="docs/favicon-32x32.png">
<link rel="icon" type="image/png" sizes="16x16" href="docs/favicon-16x16.png">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>The page needs JavaScript; the description itself is at api/v1/openapi.json.</noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/{START}"></script>
</body>
</html>
"""
# A credential is forgotten with the page, and no validator elsewhere is asked.
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


def description(edge: Edge, prefix: str) -> Blueprint:
    """`GET /openapi.json`, made once: what is loaded does not change while a service runs."""
    routes = Blueprint("openapi", __name__)
    text = jsontext.dumps(describe(edge.service.registry, prefix))

    @routes.get("/openapi.json")
    @public
    async def openapi() -> Response:
        return Response(text, mimetype="application/json")

    return routes


def page() -> Blueprint:
    """`GET /docs` and the files it names, from the root.

    Raises:
        ConfigError: Swagger UI's package is not installed.
    """
    routes = Blueprint("docs", __name__)
    folder = _folder()

    @routes.get("/docs")
    @public
    async def show() -> Response:
        return _guarded(Response(_PAGE, mimetype="text/html"))

    @routes.get("/docs/<file>")
    @public
    async def one(file: str) -> Response:
        if file == START:
            return _guarded(Response(_START_SCRIPT, mimetype="text/javascript"))
        if file not in FILES:
            raise NotFound
        content = await asyncio.to_thread((folder / file).read_bytes)
        return _guarded(Response(content, mimetype=FILES[file]))

    return routes


def _guarded(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _folder() -> Path:
    # Not imported: the package is a web framework's extension, and only its files are wanted.
    found = importlib.util.find_spec("swagger_ui")
    if found is None or found.origin is None:
        raise ConfigError("The package swagger-ui-py is not installed; /docs needs its files")
    return Path(found.origin).parent / "static"
