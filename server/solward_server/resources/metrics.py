"""`GET /metrics`, from the root, where scrapers look for it."""

from __future__ import annotations

from quart import Blueprint, Response, request

from solward.telemetry import metrics


def page() -> Blueprint:
    """What this process counts; the admin's alone, as it tells of money."""
    routes = Blueprint("metrics", __name__)

    @routes.get("/metrics")
    async def scrape() -> Response:
        body, content_type = await metrics.scrape(request.headers.get("Accept", ""))
        return Response(body, content_type=content_type)

    return routes
