"""Several API processes' worth of services in one process: one PostgreSQL, one ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.api import Api, serving_api, settings

from solward.service.cluster import localnet_options
from solward_localnet.node import Localnet
from solward_localnet.server import serving
from solward_localnet.venue import PREFIX, venue_app


@asynccontextmanager
async def shared_ledger(home: Path) -> AsyncIterator[str]:
    """The address of a localnet for all of them."""
    localnet = await Localnet.open(None, localnet_options(settings(home)))
    try:
        mounts = {PREFIX: venue_app(localnet.call)}
        async with serving(localnet, "127.0.0.1", 0, mounts=mounts) as addresses:
            yield addresses.http
    finally:
        await localnet.close()


@asynccontextmanager
async def several_apis(url: str, home: Path, count: int, **given: Any) -> AsyncIterator[list[Api]]:
    """`count` services with their applications on the database `url` and one ledger."""
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(shared_ledger(home))
        options = {"database_url": url, "solana_rpc_url": ledger, "solana_network": "localnet"}
        yield [
            await stack.enter_async_context(serving_api(home, **options | given))
            for _ in range(count)
        ]
