"""The freeze switch: it stops new transactions of the service or of one wallet at once."""

from __future__ import annotations

from typing import Any

from solward.resources import service as calls
from solward.resources.declare import answer_json
from solward.support.clock import iso
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.http.body import query_of, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.route import Routes

routes = Routes("switches", "Stop everything, at once.")


@routes.serve(calls.LIST_FROZEN, admin(Role.READ))
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


@routes.serve(calls.FREEZE, admin(Role.OPERATE), {404: NO_WALLET})
async def freeze(context: RouteContext) -> dict[str, Any]:
    what = calls.Freeze.of(await read_body())
    await context.service.switches.freeze(what.wallet_id, what.reason)
    return {"frozen": True, "walletId": what.wallet_id, "reason": what.reason}


@routes.serve(calls.UNFREEZE, admin(Role.POLICY), {404: NO_WALLET})
async def unfreeze(context: RouteContext) -> dict[str, Any]:
    what = calls.Unfreeze.of(await read_body())
    await context.service.switches.thaw(what.wallet_id)
    return {"frozen": False, "walletId": what.wallet_id}
