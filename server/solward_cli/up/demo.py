"""The demo: a wallet, and a running agent that needs no model, key or network. The agent buys from
the seller `examples/paid_api`, which runs in the service's process and on its ledger."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import re
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
import structlog
from solders.hash import Hash
from solders.message import MessageV0
from solders.transaction import VersionedTransaction
from spl.token.instructions import create_idempotent_associated_token_account

from solward.agents.agent import Agent
from solward.resources.agents import AgentStatus
from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward.types.errors import ConfigError, InvalidRequest, StoreError
from solward_cli.entrypoint import inspected_database
from solward_localnet.market import POOLS, seeded
from solward_localnet.server import application
from solward_server.listening import listen

if TYPE_CHECKING:
    from solward.service.service import Solward
    from solward.settings import Settings
    from solward.vault.custody import Wallet
    from solward_localnet.node import Localnet


DEMO_AGENT = "demo-agent"
PROVIDER = "rules"
LOOP_INTERVAL_MS = 5_000

# The path of what the seller sells, and its price.
FORECAST = "/forecast"
PRICE_UNITS = 10_000
PRICE = "0.01 USDC"
HOST = "127.0.0.1"
_FORECAST_URL = re.compile(rf"\burl=http://({re.escape(HOST)}:\d+){FORECAST}\b")

_WALLET_TAG = "solward-demo"
_SAVINGS_TAG = "solward-demo-savings"

# The first minute shows each kind of transaction, then a routine follows. It stays within the
# default limits for days and leaves room for a visitor and the held transfer: at most 4
# transactions a minute (limit 5); at most 1.1 SOL a transaction, the stake (limit 2, least 1 and
# its rent); 1.45 SOL once and then 0.002 a minute, so at most 4.33 in 24 hours (limit 10); costs
# of 0.0094 SOL once and then 0.0216 a day, so at most 0.031 in 24 hours (limit 0.05), where a
# swap under way reserves 0.002. Each purchase, refusal and hold is asked for in one cycle only,
# because a decision ends it for good.
STRATEGY = """\
# Rules of the demo provider, which is not a language model. The first that matches is taken.
when balance.SOL < 0.5 do airdrop amount=2
when cycle == 2 do launch_token name="Demo Token" symbol=DEMO
when cycle == 3 do transfer to={savings} amount=50
when cycle == 4 do transfer to={savings} amount=0.25
when cycle == 5 do swap inputToken=SOL outputToken=USDC amount=0.05
when cycle == 6 do pay_request url={forecast} max="0.05 USDC"
when cycle == 13 do stake_sol amount=1.1
when cycle == 18 do wrap_sol amount=0.05
every 12 cycles when cycle > 14 do swap inputToken=SOL outputToken=USDC amount=0.001
every 8 cycles when cycle > 14 do transfer to={savings} amount=0.001
always do wait
"""

# The grants allow no more than the default limits, so that those refuse what is too much. None of
# them transfers tokens: the agent can only pay the one seller that `via` names.
GRANTS: tuple[Mapping[str, Any], ...] = (
    {
        "may": ["launch", "swap", "stake", "wrap"],
        "assets": {"SOL": {"perTx": "2", "per": {"24h": "10"}}},
        "costs": "0.05",
    },
    {
        "may": ["transfer", "fund"],
        "assets": {"SOL": {"perTx": "1", "per": {"24h": "4"}, "hold": "0.1"}},
        "to": ["own"],
    },
    {
        "may": ["pay"],
        "assets": {"USDC": {"perTx": "0.05", "per": {"24h": "0.1"}}},
        "via": ["site:the demo's seller"],
    },
)


@dataclass(frozen=True, slots=True)
class DemoSeed:
    """The wallets, the agent and the seller of the demo.

    Attributes:
        wallet: the agent's wallet.
        savings: the wallet it sends small amounts to.
        agent: driven by the rule-based provider, which is not a language model.
        seller: site that sells a forecast; None if nobody does.
    """

    wallet: Wallet
    savings: Wallet
    agent: Agent
    seller: str | None = None


async def seed_demo(service: Solward, seller: str | None = None) -> DemoSeed:
    """Make the demo's wallets and its agent if they are missing, and start a new agent.

    An agent that was stopped stays stopped after a restart.

    Args:
        seller: site that a new agent buys from once; None for nobody.

    Raises:
        InvalidRequest: the `rules` provider is not loaded (the service runs without demo).
        ConfigError: a contact has the name of one of its wallets.
    """
    wallet = await _wallet(service, "demo", _WALLET_TAG)
    savings = await _wallet(service, "demo-savings", _SAVINGS_TAG)
    agent = await _agent(service, wallet, savings, seller)
    if agent.status is AgentStatus.IDLE:
        agent = await service.agents.start(agent.id)
    return DemoSeed(wallet, savings, agent, seller)


async def _wallet(service: Solward, name: str, tag: str) -> Wallet:
    for wallet in await service.wallets.list():
        if tag in wallet.tags:
            return wallet
    try:
        return await service.wallets.create(name, (tag,))
    except InvalidRequest as error:
        raise ConfigError(f"The demo's wallet {name!r} cannot be made: {error}") from None


def strategy(savings: str, seller: str | None) -> str:
    """Return the agent's rules, without a purchase if there is no seller."""
    rules = STRATEGY.splitlines(keepends=True)
    kept = "".join(rule for rule in rules if seller is not None or "{forecast}" not in rule)
    return kept.format(savings=savings, forecast=f"http://{seller}{FORECAST}")


def grants(seller: str | None) -> list[Mapping[str, Any]]:
    """Return the agent's grants, without one for payments if there is no seller."""
    who = {"who": f"agent:{DEMO_AGENT}"}
    via = [f"site:{seller}"]
    return [
        {**who, **grant, **({"via": via} if "via" in grant else {})}
        for grant in GRANTS
        if seller is not None or "via" not in grant
    ]


async def last_seller(settings: Settings) -> str | None:
    """Return the site that the home's demo agent buys from, or None if it has no seller."""
    from solward.agents.store import list_agents
    from solward.database.schema import has_schema

    try:
        async with inspected_database(settings) as database, database.read() as connection:
            if not await has_schema(connection):
                return None
            rows = await list_agents(connection)
    except StoreError:
        return None
    for row in rows:
        if (row["name"], row["llm_provider"]) == (DEMO_AGENT, PROVIDER):
            found = _FORECAST_URL.search(row["strategy"])
            return found and found[1]
    return None


async def _agent(service: Solward, wallet: Wallet, savings: Wallet, seller: str | None) -> Agent:
    for agent in await service.agents.list():
        if (agent.name, agent.wallet_id, agent.llm_provider) == (DEMO_AGENT, wallet.id, PROVIDER):
            return agent
    return await service.agents.create(
        {
            "name": DEMO_AGENT,
            "walletId": wallet.id,
            "llmProvider": PROVIDER,
            "llmModel": PROVIDER,
            "strategy": strategy(savings.address, seller),
            "loopIntervalMs": LOOP_INTERVAL_MS,
            "grants": grants(seller),
        }
    )


PORT = 4021
_MOST_PORT = 65_535
USDC = next(pool for pool in POOLS if pool.symbol == "USDC")

# Connections kept open at most, because the service needs the process's other files.
_MOST_BUYERS = 64

# Everybody knows this key, as those of the market: only a localnet has its account.
_SELLER = seeded("demo seller")
_OPENING_LAMPORTS = 10_000_000
# The name of the example's module, which is loaded from its folder.
_MODULE = "solward_paid_api"

_log = structlog.get_logger(__name__)


def listen_for_buyers(last: str | None = None) -> socket.socket:
    """Listen on a loopback port for the seller: its last port or else `PORT`, or a free port if
    another process uses that one.

    Args:
        last: the site that it had, as `site_of` names it.

    Raises:
        ConfigError: this machine has no free port.
    """
    port = PORT if last is None else int(last.rpartition(":")[2])
    try:
        # The number comes from a strategy, which users may change: it may be no port.
        return listen(HOST, port if port <= _MOST_PORT else PORT)
    except ConfigError:
        return listen(HOST, 0)


def site_of(listening: socket.socket) -> str:
    """Return the seller's site, as grants and `PAYMENTS_PRIVATE_SITES` name it."""
    return f"{HOST}:{listening.getsockname()[1]}"


@contextlib.asynccontextmanager
async def selling(
    localnet: Localnet | None, listening: socket.socket | None
) -> AsyncIterator[None]:
    """Sell forecasts until the block ends, if there is a localnet to be paid on.

    Args:
        listening: the socket of `listen_for_buyers`; None sells nothing.
    """
    if localnet is None or listening is None:
        yield
        return
    stop = asyncio.Event()
    # The seller calls the ledger in this process, because `--no-rpc` opens no port.
    node = httpx.ASGITransport(app=cast(Any, application(localnet.call)))
    async with httpx.AsyncClient(transport=node) as http:
        example = import_paid_api()
        app = example.forecast.create_app(
            pay_to=str(_SELLER.pubkey()),
            price=example.Price(PRICE_UNITS, str(USDC.mint), USDC.decimals),
            network="localnet",
            rpc_url="http://localnet",
            http=http,
        )

        async def sell() -> None:
            # Buyers wait until the account is open: before, their payments would fail.
            await _open_account(localnet)
            await serve_http(app, listening, stop.wait, Bounds(connections=_MOST_BUYERS))

        task = asyncio.create_task(sell())
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(task, return_exceptions=True)


async def _open_account(localnet: Localnet) -> None:
    """Open the seller's token account, which no buyer opens, if the ledger does not have it."""
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
        # The demo goes on; a purchase then fails with the reason.
        _log.warning("seller_without_account", error=str(error))


def import_paid_api() -> Any:
    """Import the example's package: from the wheel with `solward_cli`, else from `examples`."""
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
