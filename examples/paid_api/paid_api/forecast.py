"""The example itself: a weather forecast that costs a cent.

`python -m paid_api` serves it; `solward up --demo` runs it beside the service.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from quart import Quart

from .charging import Price, Served
from .mpp import Mpp
from .x402 import X402

SKIES = ("sunny", "cloudy", "rain in the afternoon", "rain", "snow on the hills", "windy")


def create_app(
    *,
    pay_to: str,
    price: Price,
    network: str,
    rpc_url: str | None = None,
    facilitator_url: str | None = None,
    x402_network: str = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
    secret: bytes | None = None,
    served: Path | str = ":memory:",
    http: httpx.AsyncClient | None = None,
) -> Quart:
    """The application: `/forecast` by MPP where there is a node to read the ledger by,
    `/x402/forecast` by x402 where there is a facilitator.

    Args:
        secret: of the challenges; None makes one, and challenges end with this process.
        served: file of the signatures that were served; needed where `secret` is given.
    """
    app = Quart(__name__)
    memory, client = Served(served), http or httpx.AsyncClient(timeout=10)
    description = "Tomorrow's weather"
    routes = []

    async def forecast() -> dict[str, Any]:
        tomorrow = datetime.now(UTC).date() + timedelta(days=1)
        return {"day": str(tomorrow), "forecast": SKIES[tomorrow.toordinal() % len(SKIES)]}

    if rpc_url is not None:
        mpp = Mpp(
            pay_to=pay_to,
            rpc_url=rpc_url,
            network=network,
            secret=secret or secrets.token_bytes(32),
            served=memory,
            http=client,
        )
        app.add_url_rule("/forecast", "mpp", mpp.charges(price, description)(forecast))
        routes.append("/forecast")
    if facilitator_url is not None:
        x402 = X402(
            pay_to=pay_to,
            facilitator_url=facilitator_url,
            network=x402_network,
            served=memory,
            http=client,
        )
        app.add_url_rule("/x402/forecast", "x402", x402.charges(price, description)(forecast))
        routes.append("/x402/forecast")

    @app.get("/")
    async def offered() -> dict[str, Any]:
        return {"sells": description, "units": price.units, "mint": price.mint, "at": routes}

    @app.after_serving
    async def close() -> None:
        memory.close()
        if http is None:
            await client.aclose()

    return app
