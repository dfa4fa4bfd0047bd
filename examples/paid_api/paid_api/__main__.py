"""`python -m paid_api`: the forecast's seller, configured by the environment."""

from __future__ import annotations

import asyncio
import os

from hypercorn.asyncio import serve
from hypercorn.config import Config

from .charging import TOKEN_PROGRAM, Price
from .forecast import create_app


async def main() -> None:
    """Serve until Ctrl-C."""
    given = os.environ
    price = Price(
        units=int(given.get("PRICE_UNITS", "10000")),
        mint=given["MINT"],
        decimals=int(given.get("DECIMALS", "6")),
        token_program=given.get("TOKEN_PROGRAM", TOKEN_PROGRAM),
    )
    secret = given.get("SELLER_SECRET")
    app = create_app(
        pay_to=given["PAY_TO"],
        price=price,
        network=given.get("NETWORK", "localnet"),
        rpc_url=given.get("RPC_URL"),
        facilitator_url=given.get("FACILITATOR_URL"),
        secret=secret.encode() if secret else None,
        served=given.get("SERVED", ":memory:"),
    )
    config = Config()
    config.bind = [f"127.0.0.1:{given.get('PORT', '4021')}"]
    await serve(app, config)


asyncio.run(main())
