"""What a swap would bring now."""

from __future__ import annotations

from typing import Any

from solward.operations.declared.swap import SWAP
from solward.resources.quotes import QUOTE_SWAP
from solward.types.roles import Role
from solward_server.http.auth import keyed
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import refusals_of
from solward_server.openapi.money import operation_body
from solward_server.openapi.route import Routes

routes = Routes("money", "Transfers, swaps, the faucet.")


@routes.serve(
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
