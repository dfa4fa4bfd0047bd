"""Health: version, ledger, agents."""

from __future__ import annotations

import asyncio
from typing import Any

from quart import Blueprint

from solward import __version__
from solward.agents.agent import AgentStatistics
from solward.resources.schema import ref
from solward.service.service import HEALTH_WAIT_S
from solward.types.errors import StoreError
from solward_server.http.auth import Access, public
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, success

_UNKNOWN = AgentStatistics(total=0, running=0, stopped=0, idle=0, paused=0, error=0)


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /health`."""
    routes = Blueprint("health", __name__)

    @routes.get("/health")
    @public
    async def health() -> dict[str, Any]:
        ledger, agents, webhooks = await asyncio.gather(
            context.service.ledger_health(), _statistics(context), _webhooks(context)
        )
        healthy = bool(ledger["healthy"]) and agents is not None
        return {
            "status": "ok" if healthy else "degraded",
            "version": __version__,
            "solana": ledger,
            "agents": (agents or _UNKNOWN).to_json(),
        } | ({"webhooks": webhooks} if webhooks else {})

    return routes


async def _statistics(context: RouteContext) -> AgentStatistics | None:
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


PATHS = {
    "/health": {
        "get": operation(
            "getHealth",
            "Is it up, which version, and does its ledger answer",
            tag="health",
            access=Access.PUBLIC,
            description="Answers within a second, always with 200.",
            response=success(
                ref("Health"),
                {
                    "status": "ok",
                    "version": "0.1.0",
                    "solana": {"healthy": True, "network": "localnet", "slot": 112},
                    "agents": {
                        "total": 1,
                        "running": 1,
                        "totalAgents": 1,
                        "runningAgents": 1,
                        "stoppedAgents": 0,
                        "idleAgents": 0,
                    },
                },
            ),
        )
    },
    "/openapi.json": {
        "get": operation(
            "getDescription",
            "This description, with the skills and providers that are loaded",
            tag="health",
            access=Access.PUBLIC,
            response=success(
                {"type": "object", "description": "OpenAPI 3.1."},
                {"openapi": "3.1.0", "info": {}, "paths": {}, "components": {}},
            ),
        )
    },
}
