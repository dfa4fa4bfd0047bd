"""Who says over HTTP what mainnet's assets are worth: two sources that know nothing of each other.

Jupiter's price API (version 3, dev.jup.ag/docs/price) reads swaps on the chain, CoinGecko
(docs.coingecko.com, `/simple/token_price/solana`) averages exchanges. Neither is believed alone:
`solward.vault.money.judge.prices` compares them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import httpx

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import known_decimals
from solward.support import jsontext
from solward.support.clock import now_ms
from solward.types.guardrail import SOL
from solward.types.money import SOL_DECIMALS
from solward.vault.grants.dollars import Price
from solward.vault.ledger.protocol import Ledger

# Of CoinGecko's paid plans, with a header of their own.
_COINGECKO_PRO: Final = "pro-api.coingecko.com"

# Mints of one request: the most of Jupiter's, as documented; CoinGecko takes 515.
_MINTS_A_REQUEST: Final = 50
_MOST_BYTES: Final = 1_000_000
# A slot takes 400 ms where none is skipped; more makes a price older than it is.
_SLOT_MS: Final = 500
# Digits and magnitude of a number that can be a price: longer ones would take long to make exact.
_MOST_DIGITS: Final = 60
_MOST_MAGNITUDE: Final = 30


class NotPrices(Exception):
    """An answer that is none; its text holds nothing of the address."""


class JupiterPrices:
    """Prices of swaps on the chain. Their age is that of the slot they are of."""

    name = "jupiter"

    def __init__(
        self, client: httpx.AsyncClient, ledger: Ledger, clock_ms: Callable[[], int] = now_ms
    ) -> None:
        """Args:
        client: bound to the API's address, with its key.
        ledger: says which slot is the newest.
        """
        self._client = client
        self._ledger = ledger
        self._clock_ms = clock_ms

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """See `PriceSource.prices`; raises where it does not answer."""
        tip, *answers = await asyncio.gather(
            self._ledger.tip(),
            *(
                _answer(self._client, "/price/v3", {"ids": ",".join(mints)})
                for mints in _requests(assets)
            ),
        )
        now = self._clock_ms()
        found: dict[str, Price] = {}
        for asset, entry in _entries(assets, answers):
            usd, decimals = _exact(entry.get("usdPrice")), entry.get("decimals")
            slot = entry.get("blockId")
            if usd is not None and type(decimals) is int and type(slot) is int:
                # A node that is behind would otherwise make it one of the future.
                age = max(0, tip.slot - slot) * _SLOT_MS
                found[asset] = Price(usd, decimals, now - age)
        return found


class CoinGeckoPrices:
    """Prices averaged over exchanges, as old as they say; of mints whose decimals are known."""

    name = "coingecko"

    def __init__(self, client: httpx.AsyncClient) -> None:
        """Args:
        client: bound to the API's address, with its key.
        """
        self._client = client

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """See `PriceSource.prices`; raises where it does not answer."""
        # It says no decimals, and a node's word alone is none.
        known = {asset: SOL_DECIMALS if asset == SOL else known_decimals(asset) for asset in assets}
        wanted = [asset for asset, decimals in known.items() if decimals is not None]
        query = {"vs_currencies": "usd", "include_last_updated_at": "true", "precision": "full"}
        answers = await asyncio.gather(
            *(
                _answer(
                    self._client,
                    "/simple/token_price/solana",
                    {"contract_addresses": ",".join(mints)} | query,
                )
                for mints in _requests(wanted)
            )
        )
        found: dict[str, Price] = {}
        for asset, entry in _entries(wanted, answers):
            usd, seconds = _exact(entry.get("usd")), entry.get("last_updated_at")
            decimals = known[asset]
            if usd is not None and decimals is not None and type(seconds) is int:
                found[asset] = Price(usd, decimals, seconds * 1000)
        return found


def coingecko_headers(url: str, key: str | None) -> dict[str, str]:
    """The header that carries a key: paid plans have another one than the free plan."""
    if key is None:
        return {}
    is_paid = httpx.URL(url).host == _COINGECKO_PRO
    return {"x-cg-pro-api-key" if is_paid else "x-cg-demo-api-key": key}


def _requests(assets: Collection[str]) -> Iterator[list[str]]:
    """The assets' mints, as many as one request may name."""
    mints = sorted(WRAPPED_SOL_MINT if asset == SOL else asset for asset in assets)
    for start in range(0, len(mints), _MINTS_A_REQUEST):
        yield mints[start : start + _MINTS_A_REQUEST]


def _entries(
    assets: Collection[str], answers: Collection[Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What was answered of each asset; what is no object is left out."""
    for asset in assets:
        mint = WRAPPED_SOL_MINT if asset == SOL else asset
        for answer in answers:
            entry = answer.get(mint)
            if isinstance(entry, dict):
                yield asset, entry


async def _answer(
    client: httpx.AsyncClient, path: str, query: Mapping[str, str]
) -> Mapping[str, Any]:
    async with client.stream("GET", path, params=dict(query)) as response:
        if response.status_code != httpx.codes.OK:
            raise NotPrices(f"status {response.status_code}")
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise NotPrices("too long")
    answer = jsontext.loads(bytes(body))
    if not isinstance(answer, dict):
        raise NotPrices("no object")
    return answer


def _exact(number: object) -> Fraction | None:
    """A JSON number without a float in between; None where it is none that can be a price."""
    if type(number) is int:
        return Fraction(number) if 0 < number < 10**_MOST_MAGNITUDE else None
    if type(number) is not Decimal or not number.is_finite() or number <= 0:
        return None
    if abs(number.adjusted()) > _MOST_MAGNITUDE or len(number.as_tuple().digits) > _MOST_DIGITS:
        return None
    return Fraction(number)
