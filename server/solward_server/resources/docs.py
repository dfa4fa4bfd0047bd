"""`/docs`: the OpenAPI document as a page, without a network."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from pathlib import Path
from typing import Any

from quart import Response
from werkzeug.exceptions import NotFound

from solward.resources.declare import Call
from solward.types.errors import ConfigError
from solward_server.http.auth import public
from solward_server.openapi.route import Routes

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
    "This description as a page to read and try.",
    None,
    name=None,
    about="Everything it needs comes from this service.",
)
_FILE: Call[Any] = Call("getDocsFile", "GET /docs/{file}", "A file of the page.", None, name=None)

routes = Routes("docs", "This description to read.")
"""From the root; its handlers take `folder()`."""


def _content(description: str, *kinds: str) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    return {"description": description, "content": content}


@routes.serve(_SHOW, public, response=_content("The page.", "text/html"))
async def show(_folder: Path) -> Response:
    return _with_policy(Response(_PAGE, mimetype="text/html"))


@routes.serve(_FILE, public, response=_content("The file.", *FILES.values()))
async def one(folder: Path, file: str) -> Response:
    if file == START:
        return _with_policy(Response(_START_SCRIPT, mimetype="text/javascript"))
    if file not in FILES:
        raise NotFound
    content = await asyncio.to_thread(_read, folder / file)
    return _with_policy(Response(content, mimetype=FILES[file]))


# Once for all readers: a stranger may ask for it as often as there are connections.
@functools.cache
def _read(path: Path) -> bytes:
    return path.read_bytes()


def _with_policy(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def folder() -> Path:
    """Where the page's files are; raises `ConfigError` where its package is not installed."""
    # Not imported: only the package's static files are needed.
    found = importlib.util.find_spec("fastapi_swagger")
    if found is None or found.origin is None:
        raise ConfigError("The package fastapi-swagger is not installed; /docs needs its files")
    return Path(found.origin).parent / "resources"
