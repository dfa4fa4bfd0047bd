"""The Solana cluster of a process, the embedded localnet or one at SOLANA_RPC_URL; and its prices.

Two independent sources, both over HTTP, have prices of mainnet's assets. Jupiter's price API
(version 3, dev.jup.ag/docs/price) uses swaps on the chain; CoinGecko (docs.coingecko.com,
`/simple/token_price/solana`) averages exchanges. Neither is trusted alone:
`solward.vault.money.judge.prices` compares them.
"""

from __future__ import annotations

import asyncio
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
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from solders.account import Account
from solders.pubkey import Pubkey

from solward.settings import Settings
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.protocol import GENESIS
from solward.solana.token_list import known_decimals
from solward.solana.tokens import token_account
from solward.support import jsontext
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
from solward.types.money import SOL_DECIMALS
from solward.vault.grants.dollars import Price
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.failover import FailoverTransport, Node
from solward.vault.ledger.transport import HttpTransport, InProcessTransport
from solward.vault.money.judge.blockhash import no_verification
from solward.vault.money.judge.prices import DEADLINE_S as PRICE_DEADLINE_S
from solward.vault.money.judge.prices import PriceSource
from solward_localnet.jsonrpc import RpcError
from solward_localnet.market import POOLS, genesis_accounts, whole_dollars
from solward_localnet.node import Localnet as Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.storage import LedgerLocked, LedgerMismatch

DEMO_POOLS: Final = tuple(str(pool.address) for pool in POOLS)
"""The addresses of the pools in a localnet's demo market."""

# dev.jup.ag: all tiers have the same address; the key in `x-api-key` selects the tier.
JUPITER_API_URL = "https://api.jup.ag"

# The time limit for the answer of one node, if there are several.
_NODE_TIMEOUT_S = 10.0

# CoinGecko's paid plans have their own address and header.
_COINGECKO_PRO: Final = "pro-api.coingecko.com"

# The maximum number of mints in a request: Jupiter's documented one; CoinGecko accepts 515.
_MINTS_A_REQUEST: Final = 50
_MOST_BYTES: Final = 1_000_000
# Skipped slots make a slot last longer; a larger margin would make prices look older.
_PRICE_MARGIN: Final = 1.25
# The maximum digits and magnitude of a price; exact arithmetic on longer numbers is slow.
_MOST_DIGITS: Final = 60
_MOST_MAGNITUDE: Final = 30


@dataclass(frozen=True, slots=True)
class Cluster:
    """A ledger, its network's name, its price sources, and the nodes that do not answer. `verify`
    raises an error until the ledger is known to belong to that network."""

    ledger: Ledger
    network: str
    localnet: Localnet | None
    verify: Callable[[], Awaitable[None]]
    price_sources: tuple[PriceSource, ...] = ()
    nodes_away: Callable[[], tuple[str, ...]] = tuple


class MarketPrices:
    """A price source: the current prices of a localnet's demo market.

    Anybody who trades there moves its prices, so it is unfit for real money.
    """

    name = "localnet"

    def __init__(self, ledger: ReadLedger) -> None:
        self._ledger = ledger

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """See `PriceSource.prices`; all prices are from one state of the ledger."""
        taken = now_ms()
        states = await self._ledger.accounts([str(key) for pool in POOLS for key in pool.vaults])
        vaults = {address: state and token_account(state) for address, state in states.items()}
        market = whole_dollars({key: vault.amount for key, vault in vaults.items() if vault})
        mints = {asset: WRAPPED_SOL_MINT if asset == SOL else asset for asset in assets}
        return {
            asset: Price(*market[mint], taken) for asset, mint in mints.items() if mint in market
        }


class WrongCluster(ConfigError, LedgerError):
    """The RPC node serves another cluster than SOLANA_NETWORK. The error prevents the start or, if
    the ledger did not answer at the start, every transaction."""


@asynccontextmanager
async def open_cluster(
    settings: Settings, genesis: Mapping[Pubkey, Account] = MappingProxyType({})
) -> AsyncIterator[Cluster]:
    """Open the cluster that the settings name.

    Args:
        genesis: the contents of a new embedded ledger in addition to its market.

    Raises:
        ConfigError: the RPC node does not serve the configured network.
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
            ledger = Ledger(InProcessTransport(localnet.call, _rejection, lambda: localnet.changes))
            await ledger.look()
        else:
            transport = _failover_transport(urls, settings.solana_network)
            stack.push_async_callback(transport.close)
            if len(urls) > 1:
                nodes_away = transport.away
                await transport.check()
            ledger = Ledger(transport)
            verify = partial(_check_cluster, ledger, settings.solana_network)
            # If the ledger cannot be reached, it is checked before the first transaction is built.
            with contextlib.suppress(LedgerUnavailable):
                await verify()
        network = settings.solana_network
        if network == "localnet":
            sources: tuple[PriceSource, ...] = (MarketPrices(ledger),)
        else:
            # On the test networks, the assets with prices have no value.
            sources = await _price_sources(settings, ledger, stack) if settings.mainnet else ()
        yield Cluster(ledger, network, localnet, verify, sources, nodes_away)


async def _price_sources(
    settings: Settings, ledger: Ledger, stack: AsyncExitStack
) -> tuple[PriceSource, ...]:
    sources: list[PriceSource] = []
    for name in settings.price_sources:
        if name == JupiterPrices.name:
            address, headers = jupiter_url(settings), jupiter_headers(settings)
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
    """Turn errors in opening or deleting the embedded ledger's file into `LocalnetError`."""
    try:
        yield
    except (LedgerLocked, LedgerMismatch) as error:
        raise LocalnetError(str(error)) from error


def localnet_options(
    settings: Settings, genesis: Mapping[Pubkey, Account] = MappingProxyType({})
) -> LocalnetOptions:
    """Return the embedded localnet's options from the settings, with the demo market at genesis."""
    return LocalnetOptions(
        slot_ms=settings.localnet_slot_ms,
        slots_per_epoch=settings.localnet_slots_per_epoch,
        finality=settings.localnet_finality,
        takes_version_1=settings.localnet_version_1 == "on",
        rent_per_byte=settings.localnet_rent_per_byte,
        genesis=lambda: {**genesis_accounts(settings.localnet_rent_per_byte), **genesis},
    )


def jupiter_url(settings: Settings) -> str:
    """Return the address of Jupiter's API."""
    return settings.jupiter_api_url or JUPITER_API_URL


def jupiter_headers(settings: Settings) -> dict[str, str]:
    """Return the headers with the key of Jupiter's API, if a key is configured."""
    key = settings.key_for("jupiter_api_key", "jupiter_api_url")
    return {} if key is None else {"x-api-key": key}


def _failover_transport(urls: Sequence[str], network: str) -> FailoverTransport:
    seen: list[str] = []

    def check_node(genesis: str) -> None:
        check_genesis(genesis, network)
        # A local cluster's genesis hash is not known before, but must be the same on all nodes.
        if not seen:
            seen.append(genesis)
        if genesis != seen[0]:
            raise WrongCluster(
                "SOLANA_RPC_URL names nodes of different clusters, or a node changed its cluster"
                f" ({_cluster_text(seen[0])} and {_cluster_text(genesis)})"
            )

    # If a connection breaks, the call is tried once more, on the next node if there is one.
    retries = int(len(urls) == 1)
    return FailoverTransport(
        [
            Node(
                urlsplit(url).netloc.rpartition("@")[2],
                HttpTransport(url, _NODE_TIMEOUT_S, retries=retries),
                check_node,
            )
            for url in urls
        ]
    )


async def _check_cluster(ledger: Ledger, network: str) -> None:
    check_genesis(await ledger.genesis_hash(), network)
    await ledger.look()


def check_genesis(genesis: str, network: str) -> None:
    """Raise `WrongCluster` if a genesis hash is not the hash of the network."""
    expected = GENESIS.get(network)
    if genesis == expected or (expected is None and genesis not in GENESIS.values()):
        return
    named = network if expected is None else _cluster_text(expected)
    raise WrongCluster(
        f"SOLANA_NETWORK is {named}, but SOLANA_RPC_URL serves {_cluster_text(genesis)}: set"
        " SOLANA_NETWORK to that cluster, or SOLANA_RPC_URL to a node of SOLANA_NETWORK"
    )


def _cluster_text(genesis: str) -> str:
    """Return a text with a genesis hash and the name of its cluster."""
    known = {value: name for name, value in GENESIS.items()}
    return f"{known.get(genesis, 'an unknown cluster')} (genesis hash {genesis})"


def _rejection(error: Exception) -> LedgerRejected | None:
    if isinstance(error, RpcError):
        return LedgerRejected(error.code, error.message, error.data)
    return None


class BadPriceAnswer(Exception):
    """A price source's answer is invalid. The error's text never contains the source's URL."""


class JupiterPrices:
    """Prices from swaps on the chain. A price's time is that of its slot."""

    name = "jupiter"

    def __init__(
        self, client: httpx.AsyncClient, ledger: Ledger, clock_ms: Callable[[], int] = now_ms
    ) -> None:
        """Create the source; `client` is bound to the API's address and has its key."""
        self._client = client
        self._ledger = ledger
        self._clock_ms = clock_ms

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """See `PriceSource.prices`; raises where it does not answer."""
        tip, entries = await asyncio.gather(
            self._ledger.tip(), _fetch_entries(self._client, "/price/v3", "ids", assets)
        )
        now = self._clock_ms()
        slot_ms = self._ledger.slot_s * 1000 * _PRICE_MARGIN
        found: dict[str, Price] = {}
        for asset, entry in entries:
            usd, decimals = _parse_price(entry.get("usdPrice")), entry.get("decimals")
            slot = entry.get("blockId")
            if usd is not None and type(decimals) is int and type(slot) is int:
                # Otherwise a node that is behind would give the price a time in the future.
                age = round(max(0, tip.slot - slot) * slot_ms)
                found[asset] = Price(usd, decimals, now - age)
        return found


class CoinGeckoPrices:
    """Prices averaged over exchanges, with CoinGecko's times, for mints with known decimals."""

    name = "coingecko"

    def __init__(self, client: httpx.AsyncClient) -> None:
        """Create the source; `client` is bound to the API's address and has its key."""
        self._client = client

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """See `PriceSource.prices`; raises where it does not answer."""
        # CoinGecko states no decimals, and the answer of a single node is not enough.
        known = {asset: SOL_DECIMALS if asset == SOL else known_decimals(asset) for asset in assets}
        wanted = [asset for asset, decimals in known.items() if decimals is not None]
        query = {"vs_currencies": "usd", "include_last_updated_at": "true", "precision": "full"}
        path = "/simple/token_price/solana"
        entries = await _fetch_entries(self._client, path, "contract_addresses", wanted, query)
        found: dict[str, Price] = {}
        for asset, entry in entries:
            usd, seconds = _parse_price(entry.get("usd")), entry.get("last_updated_at")
            decimals = known[asset]
            if usd is not None and decimals is not None and type(seconds) is int:
                found[asset] = Price(usd, decimals, seconds * 1000)
        return found


def coingecko_headers(url: str, key: str | None) -> dict[str, str]:
    """Return CoinGecko's header with the key; paid plans use another header."""
    if key is None:
        return {}
    is_paid = httpx.URL(url).host == _COINGECKO_PRO
    return {"x-cg-pro-api-key" if is_paid else "x-cg-demo-api-key": key}


async def _fetch_entries(
    client: httpx.AsyncClient,
    path: str,
    named: str,
    assets: Collection[str],
    query: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the price API's object for each asset; assets without an object are omitted.

    Args:
        named: the query field for the assets' mints.
    """
    mint_of = {asset: WRAPPED_SOL_MINT if asset == SOL else asset for asset in assets}
    mints = sorted(mint_of.values())
    answers = await asyncio.gather(
        *(
            _fetch_object(client, path, {named: ",".join(mints[n : n + _MINTS_A_REQUEST]), **query})
            for n in range(0, len(mints), _MINTS_A_REQUEST)
        )
    )
    return [
        (asset, answer[mint])
        for asset, mint in mint_of.items()
        for answer in answers
        if isinstance(answer.get(mint), dict)
    ]


async def _fetch_object(
    client: httpx.AsyncClient, path: str, query: Mapping[str, str]
) -> Mapping[str, Any]:
    async with client.stream("GET", path, params=dict(query)) as response:
        if response.status_code != httpx.codes.OK:
            raise BadPriceAnswer(f"status {response.status_code}")
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise BadPriceAnswer("too long")
    answer = jsontext.read(bytes(body), any_number=True)
    if not isinstance(answer, dict):
        raise BadPriceAnswer("no object")
    return answer


def _parse_price(number: object) -> Fraction | None:
    """Return a JSON number as an exact fraction; None if it cannot be a price."""
    if type(number) is int:
        return Fraction(number) if 0 < number < 10**_MOST_MAGNITUDE else None
    if type(number) is not Decimal or not number.is_finite() or number <= 0:
        return None
    if abs(number.adjusted()) > _MOST_MAGNITUDE or len(number.as_tuple().digits) > _MOST_DIGITS:
        return None
    return Fraction(number)
