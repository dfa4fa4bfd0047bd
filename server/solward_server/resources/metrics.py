"""`GET /metrics`, at the root, where Prometheus expects it."""

from __future__ import annotations

from quart import Blueprint, Response, request

from solward.telemetry import metrics
from solward.types.roles import Role
from solward_server.http.auth import Access, admin
from solward_server.openapi.operation import operation


def blueprint() -> Blueprint:
    """The metrics of this process; for the admin only, because they contain amounts."""
    routes = Blueprint("metrics", __name__)

    @routes.get("/metrics")
    @admin(Role.READ)
    async def scrape() -> Response:
        body, content_type = await metrics.scrape(request.headers.get("Accept", ""))
        return Response(body, content_type=content_type)

    return routes


ROOT_PATHS = {
    "/metrics": {
        "get": operation(
            "getMetrics",
            "What this process counts and measures, for Prometheus",
            tag="metrics",
            access=Access.ADMIN,
            description="As OpenMetrics where `Accept` asks for it, else as text 0.0.4.",
            response={
                "description": "The metrics.",
                "content": {
                    "text/plain": {"schema": {"type": "string"}},
                    "application/openmetrics-text": {"schema": {"type": "string"}},
                },
            },
        )
    }
}
