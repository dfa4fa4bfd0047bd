"""Cross-origin requests of the dashboard: exact origins, with credentials."""

from __future__ import annotations

from collections.abc import Sequence

from quart import Quart, Response, request
from quart_cors import cors

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_ALLOWED = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Cache-Control",
    "Last-Event-ID",
    "X-Request-Id",
    "Traceparent",
)
# What MCP clients in a browser send beside it.
_MCP = ("Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name")
_EXPOSED = ("Retry-After", "Idempotent-Replayed", "X-Request-Id")
_MAX_AGE_S = 600


def allow_origins(app: Quart, origins: Sequence[str]) -> None:
    """Answer preflights before authentication, and mark every response, errors included.

    To be called before any other `before_request` is registered.
    """

    @app.before_request
    async def preflight() -> Response | None:
        asked = "Access-Control-Request-Method" in request.headers and "Origin" in request.headers
        return Response(status=204) if request.method == "OPTIONS" and asked else None

    cors(
        app,
        allow_credentials=True,
        allow_headers=_ALLOWED + _MCP,
        allow_methods=_METHODS,
        allow_origin=origins,
        expose_headers=_EXPOSED,
        max_age=_MAX_AGE_S,
    )
