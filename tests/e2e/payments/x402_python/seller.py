"""A seller behind x402's own middleware for FastAPI.

python seller.py '{"facilitator": URL, "mint": MINT, "payTo": OWNER}'; says its address once it
serves. Each answer has the number of those that it has given.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from serving import GIVEN, serve
from x402 import x402ResourceServer
from x402.extensions.payment_identifier import declare_payment_identifier_extension
from x402.http import FacilitatorConfig, HTTPFacilitatorClient
from x402.http.middleware.fastapi import payment_middleware
from x402.http.types import PaymentOption, RouteConfig
from x402.mechanisms.svm.constants import SOLANA_DEVNET_CAIP2
from x402.mechanisms.svm.exact import register_exact_svm_server
from x402.schemas import AssetAmount


def costing(units: int, extensions: Any = None, **extra: Any) -> RouteConfig:
    price = AssetAmount(amount=str(units), asset=GIVEN["mint"], extra=extra)
    option = PaymentOption("exact", GIVEN["payTo"], price, SOLANA_DEVNET_CAIP2)
    return RouteConfig(option, description="weather", extensions=extensions)


routes = {
    "GET /weather": costing(50_000),
    "POST /echo": costing(70_000),
    "GET /order": costing(30_000, memo="order 7"),
    # The buyer gives each payment a name of its own.
    "GET /named": costing(
        20_000, {"payment-identifier": declare_payment_identifier_extension(True)}
    ),
}
client = HTTPFacilitatorClient(FacilitatorConfig(url=GIVEN["facilitator"]))
app = FastAPI()
app.middleware("http")(
    payment_middleware(routes, register_exact_svm_server(x402ResourceServer(client)))
)
served = 0


def told(**more: Any) -> dict[str, Any]:
    global served
    served += 1
    return {"served": served, **more}


@app.get("/weather")
async def weather(request: Request) -> Any:
    return told(city=request.query_params.get("city"), degrees=21)


@app.post("/echo")
async def echo(request: Request) -> Any:
    return told(echo=await request.json())


@app.get("/order")
async def order() -> Any:
    return told(order=7)


@app.get("/named")
async def named() -> Any:
    return told()


serve(app)
