"""What a swap would bring now."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.operations.declared.swap import SWAP
from solward.resources.schema import number, response_object, text, whole
from solward.types.roles import Role
from solward_server.http.auth import Access, keyed
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.money import operation_body
from solward_server.openapi.operation import operation, success


def blueprint(context: RouteContext) -> Blueprint:
    """`/quote`."""
    routes = Blueprint("quotes", __name__)

    @routes.post("/quote")
    @keyed(Role.READ)
    async def quote() -> dict[str, Any]:
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

    return routes


PATHS = {
    "/quote": {
        "post": operation(
            "quoteSwap",
            "What a swap would bring now",
            tag="money",
            access=Access.KEY,
            description="Nothing is sent, reserved or recorded.",
            body=operation_body(SWAP),
            response=success(
                response_object(
                    {
                        "inputToken": text("The mint sold."),
                        "outputToken": text("The mint bought."),
                        "inputUnits": text("Smallest units sold."),
                        "outputUnits": text("Smallest units that are expected."),
                        "minimumUnits": text("Least that must arrive, after slippage."),
                        "slippageBps": whole("As given.", 0),
                        "priceImpact": number("A fraction: 0.003 is 0.3%."),
                    }
                ),
                {
                    "inputToken": SWAP.answer["inputToken"],
                    "outputToken": SWAP.answer["outputToken"],
                    "inputUnits": "100000000",
                    "outputUnits": "14954984",
                    "minimumUnits": "14880209",
                    "slippageBps": SWAP.answer["slippageBps"],
                    "priceImpact": SWAP.answer["priceImpact"],
                },
            ),
            errors={400: [*SWAP.refusals]},
        )
    }
}
