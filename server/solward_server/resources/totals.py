"""Sums over all wallets: what was spent, transactions, refusals, balances, and what can leave."""

from __future__ import annotations

from typing import Any

from solward.resources import totals as calls
from solward.types.errors import LedgerUnavailable
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes
from solward_server.resources.wallets import leaving_of_all

routes = Routes("totals", "Sums over all wallets.")
_AWAY = LedgerUnavailable("The ledger did not answer")


@routes.serve(calls.GET_DAY_TOTALS, admin(Role.READ))
async def day_totals(context: RouteContext) -> dict[str, Any]:
    return await context.service.totals.day()


@routes.serve(calls.GET_BALANCE_TOTALS, admin(Role.READ), {500: _AWAY})
async def balance_totals(context: RouteContext) -> dict[str, Any]:
    return await context.service.totals.balances(await leaving_of_all(context.service))
