"""A ledger with tokens, a buyer who holds them, and a seller that takes one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from paid_api.forecast import create_app
from paid_market import Market
from quart.testing import QuartClient
from solana.constants import LAMPORTS_PER_SOL
from solana.rpc.async_api import AsyncClient

from solward_localnet.node import Localnet
from solward_localnet.server import serving


@pytest.fixture
async def market() -> AsyncIterator[Market]:
    localnet = await Localnet.open(None)
    try:
        async with (
            serving(localnet, "127.0.0.1", 0) as addresses,
            AsyncClient(addresses.http) as client,
        ):
            market = Market(localnet, client, addresses.http)
            await client.request_airdrop(market.buyer.pubkey(), 10 * LAMPORTS_PER_SOL)
            await market.mint()
            await market.mint()
            yield market
    finally:
        await localnet.close()


@pytest.fixture
async def seller(market: Market) -> AsyncIterator[QuartClient]:
    """A client of the forecast's seller."""
    async with httpx.AsyncClient() as http:
        app = create_app(
            pay_to=str(market.seller),
            price=market.price,
            network="localnet",
            rpc_url=market.rpc_url,
            http=http,
        )
        async with app.test_app() as running:
            yield running.test_client()
