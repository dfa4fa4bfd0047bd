"""Health: version, ledger, agents."""

from __future__ import annotations

import asyncio
from typing import Any

from solward import __version__
from solward.agents.agent import statistics_json
from solward.resources.health import GET_HEALTH
from solward.service.service import HEALTH_WAIT_S
from solward.types.errors import StoreError
from solward_server.http.auth import public
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

routes = Routes("health", "Public.")


@routes.serve(GET_HEALTH, public)
async def health(context: RouteContext) -> dict[str, Any]:
    ledger, agents, webhooks = await asyncio.gather(
        context.service.ledger_health(), _statistics(context), _webhooks(context)
    )
    healthy = bool(ledger["healthy"]) and agents is not None
    return {
        "status": "ok" if healthy else "degraded",
        "version": __version__,
        "solana": ledger,
        "agents": statistics_json({}) if agents is None else agents,
    } | ({"webhooks": webhooks} if webhooks else {})


async def _statistics(context: RouteContext) -> dict[str, int] | None:
    try:
        async with asyncio.timeout(HEALTH_WAIT_S):
            return await context.service.agents.statistics()
    except (TimeoutError, StoreError):
        return None


async def _webhooks(context: RouteContext) -> dict[str, str]:
    try:
        async with asyncio.timeout(HEALTH_WAIT_S):
            return await context.service.webhooks_health()
    except (TimeoutError, StoreError):
        return {}
