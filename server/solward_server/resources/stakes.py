"""A wallet's stakes."""

from __future__ import annotations

from typing import Any

from solward.resources.answers import answer_json
from solward.resources.wallets import LIST_STAKES, Stake
from solward.types.errors import LedgerUnavailable
from solward.types.money import lamports_to_sol
from solward.types.roles import Role
from solward_server.http.auth import keyed
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

routes = Routes("staking", "Stakes and wrapped SOL.")


@routes.serve(
    LIST_STAKES,
    keyed(Role.READ),
    {500: LedgerUnavailable("The ledger did not answer")},
)
async def stakes(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    await context.wallet(wallet_id)
    found, complete = await context.service.holdings.stakes(wallet_id)
    return {
        "stakes": [
            answer_json(
                Stake, each, balance=lamports_to_sol(each.lamports), locked=each.is_locked or None
            )
            for each in found
        ]
    } | ({} if complete else {"complete": False})
