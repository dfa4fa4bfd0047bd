"""`GET /metrics`, at the root, where Prometheus expects it."""

from __future__ import annotations

from typing import Any

from quart import Response, request

from solward.resources.declare import Call
from solward.telemetry import metrics
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.openapi.route import Routes

_TEXT = {"schema": {"type": "string"}}
_SCRAPE: Call[Any] = Call(
    "getMetrics",
    "GET /metrics",
    "What this process counts and measures, for Prometheus.",
    None,
    name=None,
    about="As OpenMetrics where `Accept` asks for it, else as text 0.0.4.",
)

routes = Routes("metrics", "For Prometheus; the admin's alone.")
"""The metrics of this process; for the admin only, because they contain amounts."""


@routes.serve(
    _SCRAPE,
    admin(Role.READ),
    response={
        "description": "The metrics.",
        "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
    },
)
async def scrape() -> Response:
    body, content_type = await metrics.scrape(request.headers.get("Accept", ""))
    return Response(body, content_type=content_type)
