"""Is it up, which version, and does its ledger answer."""

from __future__ import annotations

import asyncio
from typing import Any

from quart import Blueprint

from solward import __version__
from solward.agents.model import AgentStatistics
from solward.errors import StoreError
from solward_server.http.auth import public
from solward_server.http.edge import Edge

# Health answers within a second, whatever else does not.
_AGENTS_WAIT_S = 0.8
_UNKNOWN = AgentStatistics(total=0, running=0, stopped=0, idle=0, paused=0, error=0)


def blueprint(edge: Edge) -> Blueprint:
    """The health report, public."""
    routes = Blueprint("health", __name__)

    @routes.get("/health")
    @public
    async def health() -> dict[str, Any]:
        ledger, agents = await asyncio.gather(edge.service.ledger_health(), _statistics(edge))
        healthy = bool(ledger["healthy"]) and agents is not None
        return {
            "status": "ok" if healthy else "degraded",
            "version": __version__,
            "solana": ledger,
            "agents": (agents or _UNKNOWN).to_json(),
        }

    return routes


async def _statistics(edge: Edge) -> AgentStatistics | None:
    try:
        async with asyncio.timeout(_AGENTS_WAIT_S):
            return await edge.service.agents.statistics()
    except (TimeoutError, StoreError):
        return None
