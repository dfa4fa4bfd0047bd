"""A wallet's stakes."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.operations.declared import examples
from solward.resources.schema import array, flag, ref, response_object
from solward.types.errors import LedgerUnavailable
from solward.types.money import lamports_to_sol
from solward.types.roles import Role
from solward_server.http.auth import Access, keyed
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, success
from solward_server.openapi.parameters import WALLET_ID


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /wallets/:id/stakes`."""
    routes = Blueprint("stakes", __name__, url_prefix="/wallets/<wallet_id>")

    @routes.get("/stakes")
    @keyed(Role.READ)
    async def stakes(wallet_id: str) -> dict[str, Any]:
        await context.wallet(wallet_id)
        found, complete = await context.service.known_stakes(wallet_id)
        return {
            "stakes": [
                {
                    "address": each.address,
                    "balance": lamports_to_sol(each.lamports),
                    "state": each.state.value,
                }
                | ({"locked": True} if each.is_locked else {})
                for each in found
            ]
        } | ({} if complete else {"complete": False})

    return routes


PATHS = {
    "/wallets/{walletId}/stakes": {
        "get": operation(
            "listStakes",
            "Stake accounts the wallet may unstake or withdraw",
            tag="staking",
            access=Access.KEY,
            parameters=[WALLET_ID],
            response=success(
                response_object(
                    {
                        "stakes": array(ref("Stake")),
                        "complete": flag(
                            "False where the RPC provider serves no getProgramAccounts: then these"
                            " are the stakes that this service has records of. Else left out."
                        ),
                    },
                    optional=("complete",),
                ),
                {"stakes": [{"address": examples.STAKE, "balance": 1.5, "state": "activating"}]},
            ),
            errors={404: NO_WALLET, 500: LedgerUnavailable("The ledger did not answer")},
        )
    },
}
