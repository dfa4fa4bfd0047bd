"""Health: version, ledger, agents, webhooks."""

from __future__ import annotations

import asyncio
from typing import Any

from solward import __version__
from solward.agents.agent import statistics_json
from solward.notify import deliveries
from solward.resources.service import GET_HEALTH
from solward.service.display_reads import HEALTH_WAIT_S
from solward.types.errors import StoreError
from solward_server.http.auth import public
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

routes = Routes("health", "Public.")


@routes.serve(GET_HEALTH, public)
async def health(context: RouteContext) -> dict[str, Any]:
    ledger, agents, webhooks = await asyncio.gather(
        context.service.display.health(), _statistics(context), _webhooks(context)
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
    """Of each webhook that is set: `ok`, or `failing` while its receiver does not take what it is
    told."""
    service = context.service
    senders = [each for each in (service.webhook, service.alert_webhook) if each is not None]
    if not senders:
        return {}
    try:
        async with asyncio.timeout(HEALTH_WAIT_S), service.database.read() as connection:
            waiting = await deliveries.waiting(connection)
    except (TimeoutError, StoreError):
        return {}
    failing = {channel for channel, (_, failed) in waiting.items() if failed}
    return {each.channel: "failing" if each.channel in failing else "ok" for each in senders}
