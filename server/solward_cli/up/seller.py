"""The demo's seller: the example of `examples/paid_api`, beside the service and on its ledger."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
import structlog
from solders.hash import Hash
from solders.message import MessageV0
from solders.transaction import VersionedTransaction
from spl.token.instructions import create_idempotent_associated_token_account

from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward.types.errors import ConfigError
from solward_cli.up.demo import HOST, PRICE_UNITS
from solward_localnet.market import POOLS, seeded
from solward_localnet.server import application
from solward_server.listening import listen

if TYPE_CHECKING:
    from solward_localnet.node import Localnet

PORT = 4021
_MOST_PORT = 65_535
USDC = next(pool for pool in POOLS if pool.symbol == "USDC")

# Connections that are kept open; the process's other files are the service's.
_MOST_BUYERS = 64

# Known to everybody, as the keys of the market are: no ledger but a localnet has it.
_SELLER = seeded("demo seller")
_OPENING_LAMPORTS = 10_000_000
# Of the module that is loaded from a folder, whatever else is installed.
_MODULE = "solward_paid_api"

_log = structlog.get_logger(__name__)


def listen_for_buyers(last: str | None = None) -> socket.socket:
    """A loopback port of the seller's: the one it had, else `PORT`, or a free one where another
    process has that.

    Args:
        last: the site that it was, as `site_of` names it.

    Raises:
        ConfigError: this machine has no free one.
    """
    port = PORT if last is None else int(last.rpartition(":")[2])
    try:
        # It stands in a strategy, into which people may write a number that is no port.
        return listen(HOST, port if port <= _MOST_PORT else PORT)
    except ConfigError:
        return listen(HOST, 0)


def site_of(listening: socket.socket) -> str:
    """The seller's site, as grants and `PAYMENTS_PRIVATE_SITES` name it."""
    return f"{HOST}:{listening.getsockname()[1]}"


@contextlib.asynccontextmanager
async def selling(
    localnet: Localnet | None, listening: socket.socket | None
) -> AsyncIterator[None]:
    """Sell forecasts until the block ends, where there is a localnet to be paid on.

    Args:
        listening: of `listen_for_buyers`; None sells nothing.
    """
    if localnet is None or listening is None:
        yield
        return
    stop = asyncio.Event()
    # Plain JSON-RPC, as of any node; in this process, so that `--no-rpc` stays as it is.
    node = httpx.ASGITransport(app=cast(Any, application(localnet.call)))
    async with httpx.AsyncClient(transport=node) as http:
        example = paid_api()
        app = example.forecast.create_app(
            pay_to=str(_SELLER.pubkey()),
            price=example.Price(PRICE_UNITS, str(USDC.mint), USDC.decimals),
            network="localnet",
            rpc_url="http://localnet",
            http=http,
        )

        async def sell() -> None:
            # A buyer who comes before waits, and is not told that the account lacks.
            await _open_account(localnet)
            await serve_http(app, listening, stop.wait, Bounds(connections=_MOST_BUYERS))

        task = asyncio.create_task(sell())
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(task, return_exceptions=True)


async def _open_account(localnet: Localnet) -> None:
    """Open the seller's account of the token, which no buyer opens; once on a ledger."""
    owner = _SELLER.pubkey()
    opening = create_idempotent_associated_token_account(owner, owner, USDC.mint)
    try:
        held = await localnet.call(
            "getTokenAccountsByOwner",
            [str(owner), {"mint": str(USDC.mint)}, {"encoding": "base64"}],
        )
        if held["value"]:
            return
        await localnet.call("requestAirdrop", [str(owner), _OPENING_LAMPORTS])
        latest = await localnet.call("getLatestBlockhash")
        message = MessageV0.try_compile(
            owner, [opening], [], Hash.from_string(latest["value"]["blockhash"])
        )
        wire = base64.b64encode(bytes(VersionedTransaction(message, [_SELLER]))).decode()
        options = {"encoding": "base64", "preflightCommitment": "processed"}
        await localnet.call("sendTransaction", [wire, options])
    except Exception as error:
        # The demo goes on: a purchase says what lacks.
        _log.warning("seller_without_account", error=str(error))


def paid_api() -> Any:
    """The example's package: in the wheel beside `solward_cli`'s modules, else in the source tree's
    examples."""
    if _MODULE not in sys.modules:
        package = Path(__file__).parents[1]
        folder = package / "paid_api"
        if not folder.is_dir():
            folder = package.parents[1] / "examples" / "paid_api" / "paid_api"
        spec = importlib.util.spec_from_file_location(
            _MODULE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules[_MODULE] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    importlib.import_module(f"{_MODULE}.forecast")
    return sys.modules[_MODULE]
