"""The cluster of a process: the embedded localnet, or one behind SOLANA_RPC_URL."""

from __future__ import annotations

import contextlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from urllib.parse import urlsplit

import httpx
from solders.account import Account
from solders.pubkey import Pubkey

from solward.service.price_sources import CoinGeckoPrices, JupiterPrices, coingecko_headers
from solward.settings import Settings
from solward.solana.clusters import GENESIS
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES, TOKEN_ACCOUNT_RENT, token_account
from solward.support.clock import now_ms
from solward.types.errors import (
    ConfigError,
    LedgerError,
    LedgerRejected,
    LedgerUnavailable,
    LocalnetError,
)
from solward.types.guardrail import SOL
from solward.types.ledger import ReadLedger
from solward.types.money import format_sol
from solward.vault.grants.dollars import Price
from solward.vault.ledger.client import RpcLedger
from solward.vault.ledger.failover import FailoverTransport
from solward.vault.ledger.node import Node
from solward.vault.ledger.protocol import Ledger
from solward.vault.ledger.transport import HttpTransport, InProcessTransport
from solward.vault.money.judge.assess import no_verification
from solward.vault.money.judge.prices import DEADLINE_S as PRICE_DEADLINE_S
from solward.vault.money.judge.prices import PriceSource
from solward_localnet.errors import LedgerLocked, LedgerMismatch, RpcError
from solward_localnet.market import POOLS, genesis_accounts, upgrade, whole_dollars
from solward_localnet.node import Localnet as Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.venue import venue_app

# dev.jup.ag: one address for every tier; the key in `x-api-key` selects it.
JUPITER_API_URL = "https://api.jup.ag"

VENUE_TIMEOUT_S = 15.0
# For one node of several.
_NODE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A ledger, its network's name, the HTTP client bound to its swap venue, `verify`, which raises
    while the ledger is not known to be that network, who knows what its assets are worth, and which
    of several nodes do not answer."""

    ledger: Ledger
    network: str
    venue_http: httpx.AsyncClient
    localnet: Localnet | None
    verify: Callable[[], Awaitable[None]]
    price_sources: tuple[PriceSource, ...] = ()
    nodes_away: Callable[[], tuple[str, ...]] = tuple


class MarketPrices:
    """What the demo market of a localnet pays now.

    Whoever trades there moves its prices, so it is none for real money.
    """

    name = "localnet"

    def __init__(self, ledger: ReadLedger) -> None:
        self._ledger = ledger

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """`PriceSource.prices`, all from one state of the ledger."""
        taken = now_ms()
        states = await self._ledger.accounts([str(key) for pool in POOLS for key in pool.vaults])
        vaults = {address: state and token_account(state) for address, state in states.items()}
        market = whole_dollars({key: vault.amount for key, vault in vaults.items() if vault})
        mints = {asset: WRAPPED_SOL_MINT if asset == SOL else asset for asset in assets}
        return {
            asset: Price(*market[mint], taken) for asset, mint in mints.items() if mint in market
        }


class WrongCluster(ConfigError, LedgerError):
    """The RPC serves another cluster than SOLANA_NETWORK names: stops the start, and every
    transaction where the ledger was away at the start."""


@asynccontextmanager
async def open_cluster(
    settings: Settings, genesis: Mapping[Pubkey, Account] = MappingProxyType({})
) -> AsyncIterator[Cluster]:
    """Open the cluster the settings name.

    Args:
        genesis: what a new embedded ledger holds beside its market.

    Raises:
        ConfigError: the RPC is not the network it is said to be.
        LocalnetError: the embedded ledger's file cannot be opened.
    """
    async with AsyncExitStack() as stack:
        localnet: Localnet | None = None
        nodes_away: Callable[[], tuple[str, ...]] = tuple
        verify: Callable[[], Awaitable[None]] = no_verification
        urls = settings.rpc_urls
        if not urls:
            with localnet_errors():
                options = localnet_options(settings, genesis)
                localnet = await Localnet.open(settings.localnet_path, options)
            stack.push_async_callback(localnet.close)
            ledger = RpcLedger(
                InProcessTransport(localnet.call, _rejection, lambda: localnet.changes)
            )
            venue = httpx.AsyncClient(
                transport=httpx.ASGITransport(venue_app(localnet.call)),
                base_url="http://localnet",
                timeout=VENUE_TIMEOUT_S,
            )
        else:
            transport = _transport(urls, settings.solana_network)
            stack.push_async_callback(transport.close)
            if len(urls) > 1:
                nodes_away = transport.away
                await transport.check()
            ledger = RpcLedger(transport)
            verify = partial(_check_cluster, ledger, settings.solana_network)
            # A ledger that is away now is checked again before the first transaction is built.
            with contextlib.suppress(LedgerUnavailable):
                await verify()
            venue = httpx.AsyncClient(
                base_url=venue_url(settings),
                headers=_venue_headers(settings),
                timeout=VENUE_TIMEOUT_S,
            )
        await stack.enter_async_context(venue)
        network = settings.solana_network
        if network == "localnet":
            sources: tuple[PriceSource, ...] = (MarketPrices(ledger),)
        else:
            # What they price is worth nothing on the test networks.
            sources = await _price_sources(settings, ledger, stack) if settings.mainnet else ()
        yield Cluster(ledger, network, venue, localnet, verify, sources, nodes_away)


async def _price_sources(
    settings: Settings, ledger: Ledger, stack: AsyncExitStack
) -> tuple[PriceSource, ...]:
    """Those of PRICE_SOURCES, whose clients the stack closes."""
    sources: list[PriceSource] = []
    for name in settings.price_sources:
        if name == JupiterPrices.name:
            address, headers = venue_url(settings), _venue_headers(settings)
        else:
            key = settings.key_for("coingecko_api_key", "coingecko_api_url")
            address = settings.coingecko_api_url
            headers = coingecko_headers(address, key)
        client = httpx.AsyncClient(base_url=address, headers=headers, timeout=PRICE_DEADLINE_S)
        await stack.enter_async_context(client)
        sources.append(
            JupiterPrices(client, ledger) if name == JupiterPrices.name else CoinGeckoPrices(client)
        )
    return tuple(sources)


@contextlib.contextmanager
def localnet_errors() -> Iterator[None]:
    """Raise `LocalnetError` where the embedded ledger's file cannot be opened or deleted."""
    try:
        yield
    except (LedgerLocked, LedgerMismatch) as error:
        raise LocalnetError(str(error)) from error


def localnet_options(
    settings: Settings, genesis: Mapping[Pubkey, Account] = MappingProxyType({})
) -> LocalnetOptions:
    """How the embedded localnet is opened: the settings' pace, with the demo market."""
    return LocalnetOptions(
        slot_ms=settings.localnet_slot_ms,
        slots_per_epoch=settings.localnet_slots_per_epoch,
        genesis=lambda: {**genesis_accounts(), **genesis},
        upgrade=upgrade,
    )


def venue_url(settings: Settings) -> str:
    """The configured one, or a remote localnet itself, which serves its venue."""
    if _venue_setting(settings) == "solana_rpc_url":
        return settings.rpc_urls[0]
    return settings.jupiter_api_url or JUPITER_API_URL


def _venue_setting(settings: Settings) -> str:
    is_remote_localnet = settings.solana_network == "localnet" and settings.rpc_urls
    if is_remote_localnet and not settings.jupiter_api_url:
        return "solana_rpc_url"
    return "jupiter_api_url"


def _venue_headers(settings: Settings) -> dict[str, str]:
    key = settings.key_for("jupiter_api_key", _venue_setting(settings))
    return {} if key is None else {"x-api-key": key}


def _transport(urls: Sequence[str], network: str) -> FailoverTransport:
    seen: list[str] = []

    def judge(genesis: str) -> None:
        judge_genesis(genesis, network)
        # A local cluster's hash is not known; it only must stay the same, on every node.
        if not seen:
            seen.append(genesis)
        if genesis != seen[0]:
            raise WrongCluster(
                "SOLANA_RPC_URL names nodes of different clusters, or one has changed its cluster"
                f" ({_cluster(seen[0])} and {_cluster(genesis)})"
            )

    # A connection that was cut is tried once more; where there are others, by the next node.
    retries = int(len(urls) == 1)
    return FailoverTransport(
        [
            Node(
                urlsplit(url).netloc.rpartition("@")[2],
                HttpTransport(url, _NODE_TIMEOUT_S, retries=retries),
                judge,
            )
            for url in urls
        ]
    )


async def _check_cluster(ledger: Ledger, network: str) -> None:
    judge_genesis(await ledger.genesis_hash(), network)
    rent = await ledger.rent_exempt_minimum(TOKEN_ACCOUNT_BYTES)
    if rent > TOKEN_ACCOUNT_RENT:
        # The bound of a transaction counts today's rent; more would leave than it says.
        raise WrongCluster(
            f"The cluster asks {format_sol(rent)} SOL of rent for a token account; this version"
            f" counts {format_sol(TOKEN_ACCOUNT_RENT)} SOL, and signs nothing where it is more"
        )


def judge_genesis(genesis: str, network: str) -> None:
    """Raise `WrongCluster` where a genesis hash is not that of the network."""
    expected = GENESIS.get(network)
    if genesis == expected or (expected is None and genesis not in GENESIS.values()):
        return
    named = network if expected is None else _cluster(expected)
    raise WrongCluster(
        f"SOLANA_NETWORK is {named}, but SOLANA_RPC_URL serves {_cluster(genesis)}: set"
        " SOLANA_NETWORK to that one, or SOLANA_RPC_URL to a node of the other"
    )


def _cluster(genesis: str) -> str:
    """A cluster by the name that its genesis hash has, and the hash."""
    known = {value: name for name, value in GENESIS.items()}
    return f"{known.get(genesis, 'an unknown cluster')} (genesis hash {genesis})"


def _rejection(error: Exception) -> LedgerRejected | None:
    if isinstance(error, RpcError):
        return LedgerRejected(error.code, error.message, error.data)
    return None
