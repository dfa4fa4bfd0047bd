"""`/docs`: the OpenAPI document as a page, without a network."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from pathlib import Path
from typing import Any

from quart import Blueprint, Response
from werkzeug.exceptions import NotFound

from solward.types.errors import ConfigError
from solward_server.http.auth import Access, public
from solward_server.openapi.operation import operation

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


def blueprint() -> Blueprint:
    """`GET /docs` and the files it names, from the root.

    Raises:
        ConfigError: Swagger UI's package is not installed.
    """
    routes = Blueprint("docs", __name__)
    folder = _folder()

    # Once for all readers: a stranger may ask for it as often as there are connections.
    @functools.cache
    def read(file: str) -> bytes:
        return (folder / file).read_bytes()

    @routes.get("/docs")
    @public
    async def show() -> Response:
        return _with_policy(Response(_PAGE, mimetype="text/html"))

    @routes.get("/docs/<file>")
    @public
    async def one(file: str) -> Response:
        if file == START:
            return _with_policy(Response(_START_SCRIPT, mimetype="text/javascript"))
        if file not in FILES:
            raise NotFound
        content = await asyncio.to_thread(read, file)
        return _with_policy(Response(content, mimetype=FILES[file]))

    return routes


def _with_policy(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _folder() -> Path:
    # Not imported: only the package's static files are needed.
    found = importlib.util.find_spec("fastapi_swagger")
    if found is None or found.origin is None:
        raise ConfigError("The package fastapi-swagger is not installed; /docs needs its files")
    return Path(found.origin).parent / "resources"


_FILE = {
    "name": "file",
    "in": "path",
    "required": True,
    "description": "One of the files the page names.",
    "schema": {"type": "string"},
    "example": "swagger-ui.css",
}


def _content(description: str, *kinds: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {kind: {"schema": {"type": "string"}} for kind in kinds},
    }


ROOT_PATHS = {
    "/docs": {
        "get": operation(
            "getDocs",
            "This description as a page to read and try",
            tag="docs",
            access=Access.PUBLIC,
            description="Everything it needs comes from this service.",
            response=_content("The page.", "text/html"),
        )
    },
    "/docs/{file}": {
        "get": operation(
            "getDocsFile",
            "A file of the page",
            tag="docs",
            access=Access.PUBLIC,
            parameters=[_FILE],
            response=_content("The file.", "text/css", "text/javascript", "image/png"),
            errors={404: "Not found"},
        )
    },
}
