"""What moves money: a route for each declared operation; and what a swap would bring now."""

from __future__ import annotations

from functools import partial
from typing import Any

from quart import Blueprint, Response

from solward.operations.declared import OPERATIONS, SWAP, Operation
from solward.resources.service import QUOTE_SWAP
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.roles import Role
from solward.vault.money.request import Actor
from solward_server.http.auth import keyed
from solward_server.http.body import read_body
from solward_server.http.money_response import money_response
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import refusals_of
from solward_server.openapi.money import money_operation, operation_body
from solward_server.openapi.route import Routes

quotes = Routes("money", "Transfers, swaps, the faucet.")


@quotes.serve(
    QUOTE_SWAP, keyed(Role.READ), {400: refusals_of(SWAP.fields)}, body=operation_body(SWAP)
)
async def quote(context: RouteContext) -> dict[str, Any]:
    found = await context.service.operations.quote(await read_body())
    return {
        "inputToken": found.input_mint,
        "outputToken": found.output_mint,
        "inputUnits": str(found.in_amount),
        "outputUnits": str(found.out_amount),
        "minimumUnits": str(found.minimum_out),
        "slippageBps": found.slippage_bps,
        "priceImpact": found.price_impact,
    }


def blueprint(context: RouteContext) -> Blueprint:
    """`POST` under a wallet, named as the operation's path."""
    routes = Blueprint("operations", __name__, url_prefix="/wallets/<wallet_id>")
    for declared in OPERATIONS.values():
        routes.add_url_rule(
            f"/{declared.path}",
            endpoint=declared.name,
            view_func=_view(context, declared),
            methods=["POST"],
        )
    return routes


def _view(context: RouteContext, declared: Operation) -> Any:
    @keyed(Role.POLICY)
    async def view(wallet_id: str) -> Response:
        body = await read_body()
        # In JSON requests null is an absent field.
        params = {name: value for name, value in body.items() if value is not None}

        async def run(actor: Actor) -> TransactionRecord:
            # Here, so that a request that is sent again is answered whatever a name means by now.
            paying = await context.addressed(declared.name, params)
            return await context.service.operations.perform(declared.name, wallet_id, actor, paying)

        return await money_response(context, wallet_id, body, run, partial(_to_json, declared))

    return view


def _to_json(declared: Operation, record: TransactionRecord) -> dict[str, Any]:
    body = record.to_json(fee=True)
    if declared.is_flat:
        body = {**record.details, **body}
    if declared.metadata:
        body["metadata"] = {name: record.details[name] for name in declared.metadata}
    if declared.flag:
        body[declared.flag] = record.status is TransactionStatus.CONFIRMED
    return body


PATHS = {
    f"/wallets/{{walletId}}/{declared.path}": {"post": money_operation(declared)}
    for declared in OPERATIONS.values()
}
