"""The service itself: its health, the settings of this process without secrets, and the switch that
stops new transactions of the service or of one wallet at once."""

from __future__ import annotations

import asyncio
from typing import Any

from solward import __version__
from solward.agents.agent import statistics_json
from solward.notify import deliveries
from solward.resources import service as calls
from solward.resources.declare import answer_json
from solward.resources.service import GET_HEALTH, LIST_SETTINGS
from solward.service.holdings import HEALTH_WAIT_S
from solward.support.clock import iso
from solward.types.errors import StoreError
from solward.types.roles import Role
from solward_server.http.auth import admin, public
from solward_server.http.body import query_of, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.route import Routes

health = Routes("health", "Public.")
settings = Routes("settings", "The settings that the service was started with.")
switches = Routes("switches", "Stop all new transactions at once.")


@health.serve(GET_HEALTH, public)
async def show_health(context: RouteContext) -> dict[str, Any]:
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
    """Return each webhook's state: `ok`, or `failing` while its receiver refuses messages."""
    service = context.service
    webhooks = (service.webhook, service.alert_webhook, *service.hold_messages)
    senders = [each for each in webhooks if each is not None]
    if not senders:
        return {}
    try:
        async with asyncio.timeout(HEALTH_WAIT_S), service.database.read() as connection:
            waiting = await deliveries.waiting_counts(connection)
    except (TimeoutError, StoreError):
        return {}
    failing = {channel for channel, (_, failed) in waiting.items() if failed}
    return {each.channel: "failing" if each.channel in failing else "ok" for each in senders}


@settings.serve(LIST_SETTINGS, admin(Role.READ))
async def list_settings(context: RouteContext) -> dict[str, Any]:
    return {"settings": list(context.service.settings.report())}


@switches.serve(calls.LIST_FROZEN, admin(Role.READ))
async def frozen(context: RouteContext) -> dict[str, Any]:
    asked = query_of(calls.ListedFrozen)
    switch, wallets, count = await context.service.switches.frozen(asked.limit)
    return {
        "frozen": switch is not None,
        "reason": None if switch is None else switch.reason,
        "since": None if switch is None else iso(switch.since_ms),
        "frozenWallets": count,
        "wallets": [answer_json(calls.FrozenWallet, each) for each in wallets],
    }


@switches.serve(calls.FREEZE, admin(Role.OPERATE), {404: NO_WALLET})
async def freeze(context: RouteContext) -> dict[str, Any]:
    what = calls.Freeze.of(await read_body())
    await context.service.switches.freeze(what.wallet_id, what.reason)
    return {"frozen": True, "walletId": what.wallet_id, "reason": what.reason}


@switches.serve(calls.UNFREEZE, admin(Role.POLICY), {404: NO_WALLET})
async def unfreeze(context: RouteContext) -> dict[str, Any]:
    what = calls.Unfreeze.of(await read_body())
    await context.service.switches.thaw(what.wallet_id)
    return {"frozen": False, "walletId": what.wallet_id}
