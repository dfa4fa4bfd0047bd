"""The two sources of dollar prices, in the shapes that their documents state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from tests.promises import promise
from tests.support.grants import NOW_MS, Clock, SaidPrices

from solward.service.cluster import (
    BadPriceAnswer,
    CoinGeckoPrices,
    JupiterPrices,
    coingecko_headers,
    open_cluster,
)
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.types.errors import ConfigError
from solward.vault.grants.dollars import AssetPrice, NoPrice, Price
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import Tip
from solward.vault.money.judge.prices import Prices

USDC = token_list("mainnet-beta").resolve("USDC", "mint")
BONK = token_list("mainnet-beta").resolve("BONK", "mint")
UNLISTED = "So1dTokenNobodyLists11111111111111111111111"
TIP = 348_004_030

JUPITER = {
    WRAPPED_SOL_MINT: {
        "createdAt": "2024-06-05T08:55:25.527Z", "liquidity": 621679197.67, "usdPrice": 147.48,
        "blockId": TIP - 4, "decimals": 9, "priceChange24h": 1.29,
    },
    USDC: {"usdPrice": 0.9999, "blockId": TIP - 2, "decimals": 6, "priceChange24h": -0.003},
    UNLISTED: {"usdPrice": 2, "blockId": TIP, "decimals": 6},
}  # fmt: skip
COINGECKO = {
    WRAPPED_SOL_MINT: {"usd": 147.9, "last_updated_at": NOW_MS // 1000 - 20},
    USDC: {"usd": 0.99987654321, "last_updated_at": NOW_MS // 1000 - 21},
}


@dataclass
class Newest:
    """The ledger, as far as a source asks it."""

    slot: int = TIP
    slot_s: float = 0.4

    async def tip(self) -> Tip:
        return Tip(self.slot, self.slot - 1000)


@dataclass
class Site:
    """An HTTP site that answers `body`, and remembers what it was asked."""

    body: Any
    status: int = 200
    asked: list[httpx.Request] = field(default_factory=list)

    def client(self, url: str) -> httpx.AsyncClient:
        def answer(request: httpx.Request) -> httpx.Response:
            self.asked.append(request)
            body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
            return httpx.Response(self.status, content=body)

        return httpx.AsyncClient(base_url=url, transport=httpx.MockTransport(answer))


def jupiter(site: Site, slot: int = TIP, slot_s: float = 0.4) -> JupiterPrices:
    ledger = cast("Ledger", Newest(slot, slot_s))
    return JupiterPrices(site.client("https://api.example"), ledger, Clock())


def coingecko(site: Site) -> CoinGeckoPrices:
    return CoinGeckoPrices(site.client("https://api.example/api/v3"))


@promise("stale-price-counts-not")
async def test_a_price_of_the_chain_is_as_old_as_its_slot_and_exact() -> None:
    site = Site(JUPITER)
    found = await jupiter(site).prices(["SOL", USDC, BONK])
    assert found == {
        "SOL": Price(Fraction("147.48"), 9, NOW_MS - 2_000),
        USDC: Price(Fraction("0.9999"), 6, NOW_MS - 1_000),
    }
    (asked,) = site.asked
    assert asked.url.path == "/price/v3"
    assert set(asked.url.params["ids"].split(",")) == {WRAPPED_SOL_MINT, USDC, BONK}
    faster = await jupiter(site, slot_s=0.2).prices(["SOL"])
    assert faster["SOL"].taken_ms == NOW_MS - 1_000
    behind = await jupiter(site, TIP - 1_000).prices(["SOL"])
    assert behind["SOL"].taken_ms == NOW_MS


@promise("stale-price-counts-not")
async def test_an_average_of_exchanges_is_as_old_as_it_says_and_of_known_mints_alone() -> None:
    site = Site(COINGECKO | {UNLISTED: {"usd": 2, "last_updated_at": NOW_MS // 1000}})
    found = await coingecko(site).prices(["SOL", USDC, BONK, UNLISTED])
    assert found == {
        "SOL": Price(Fraction("147.9"), 9, NOW_MS - 20_000),
        USDC: Price(Fraction("0.99987654321"), 6, NOW_MS - 21_000),
    }
    (asked,) = site.asked
    assert asked.url.path == "/api/v3/simple/token_price/solana"
    assert asked.url.params["vs_currencies"] == "usd"
    assert asked.url.params["include_last_updated_at"] == "true"
    assert UNLISTED not in asked.url.params["contract_addresses"]


async def test_more_mints_than_one_request_may_name_take_several() -> None:
    site = Site({})
    await jupiter(site).prices([f"mint{number}" for number in range(101)])
    named = [len(request.url.params["ids"].split(",")) for request in site.asked]
    assert sorted(named) == [1, 50, 50]


@promise("dollars-without-float")
@pytest.mark.parametrize("make", [jupiter, coingecko])
@pytest.mark.parametrize(
    "site",
    [Site({}, 429), Site({}, 500), Site(b"<html>"), Site([]), Site({"a": "x" * 1_000_001})],
    ids=["429", "500", "no JSON", "no object", "too long"],
)
async def test_what_is_no_answer_raises(make: Callable[[Site], Any], site: Site) -> None:
    with pytest.raises((BadPriceAnswer, ValueError)):
        await make(site).prices(["SOL"])


@promise("dollars-without-float")
@pytest.mark.parametrize(
    "number",
    [None, "1", True, 0, -1, 0.0, b"1e400", b"1e-400", b"1" + b"0" * 40, b"0." + b"1" * 80],
    ids=repr,
)
async def test_what_is_no_price_is_left_out(number: Any) -> None:
    text = number if isinstance(number, bytes) else json.dumps(number).encode()
    entry = b'{"%s": {"usdPrice": %s, "blockId": 1, "decimals": 9}}'
    assert await jupiter(Site(entry % (WRAPPED_SOL_MINT.encode(), text))).prices(["SOL"]) == {}
    entry = b'{"%s": {"usd": %s, "last_updated_at": 1}}'
    assert await coingecko(Site(entry % (WRAPPED_SOL_MINT.encode(), text))).prices(["SOL"]) == {}


@pytest.mark.parametrize(
    "changed",
    [{"decimals": None}, {"decimals": "9"}, {"blockId": None}, {"blockId": 1.5}, {"usdPrice": {}}],
    ids=str,
)
async def test_a_price_without_its_decimals_or_its_slot_is_left_out(changed: Any) -> None:
    entry = JUPITER[WRAPPED_SOL_MINT] | changed
    assert await jupiter(Site({WRAPPED_SOL_MINT: entry})).prices(["SOL"]) == {}


@promise("higher-price-counts")
async def test_both_must_know_an_asset_and_the_higher_price_counts() -> None:
    sources = [jupiter(Site(JUPITER)), coingecko(Site(COINGECKO))]
    prices = Prices(sources, clock_ms=Clock(), max_spread_bps=200)
    found = await prices.prices(["SOL", USDC, UNLISTED])
    assert found["SOL"] == Price(Fraction("147.9"), 9, NOW_MS - 20_000)
    assert found[USDC] == Price(Fraction("0.9999"), 6, NOW_MS - 21_000)
    assert found[UNLISTED] == NoPrice("the price source coingecko has no price for this asset")


@promise("distant-prices-are-none")
@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [(100, 102, False), (102, 100, False), (100, "102.000001", True), ("102.000001", 100, True),
     (100, 1000, True)],
    ids=str,
)  # fmt: skip
async def test_prices_that_are_too_far_apart_are_none(one: Any, other: Any, apart: bool) -> None:
    clock = Clock()
    sources = [
        SaidPrices(name, {"SOL": (usd, 9)}, clock) for name, usd in (("a", one), ("b", other))
    ]
    found = (await Prices(sources, clock_ms=clock, max_spread_bps=200).prices(["SOL"]))["SOL"]
    none = NoPrice("the prices from a and b are more than 2% apart")
    assert (found == none) is apart


@promise("stale-price-counts-not")
@pytest.mark.parametrize("age_s", [30, 31])
async def test_a_price_counts_for_as_long_as_the_operator_says(age_s: int) -> None:
    clock = Clock()
    source = SaidPrices("a", {"SOL": (1, 9)}, clock, age_ms=age_s * 1000)
    prices = Prices([source], clock_ms=clock, max_age_ms=30_000)
    found: AssetPrice = (await prices.prices(["SOL"]))["SOL"]
    assert (found == NoPrice("the price is 31 s old; its maximum age is 30 s")) is (age_s == 31)


def test_a_paid_plan_has_a_header_of_its_own() -> None:
    assert coingecko_headers("https://api.coingecko.com/api/v3", None) == {}
    free = coingecko_headers("https://api.coingecko.com/api/v3", "k")
    paid = coingecko_headers("https://pro-api.coingecko.com/api/v3", "k")
    assert (free, paid) == ({"x-cg-demo-api-key": "k"}, {"x-cg-pro-api-key": "k"})


def mainnet(tmp_path: Path, **given: Any) -> Settings:
    return Settings(
        _env_file=None, solward_home=tmp_path, solana_network="mainnet-beta",
        solana_rpc_url="http://127.0.0.1:9", **given,
    )  # fmt: skip


@promise("prices-off-by-default")
def test_they_are_off_by_default_and_one_alone_is_refused(tmp_path: Path) -> None:
    assert mainnet(tmp_path).price_sources == ()
    for one in ("jupiter", "coingecko", "jupiter,jupiter", "jupiter,pyth"):
        with pytest.raises(ConfigError, match="one source alone is not believed"):
            mainnet(tmp_path, price_sources=one)
    with pytest.raises(ConfigError, match="COINGECKO_API_URL must be https://"):
        mainnet(tmp_path, coingecko_api_url="http://prices.example")
    key = mainnet(tmp_path, coingecko_api_key="a-secret-of-coingecko")
    assert "a-secret-of-coingecko" not in f"{key!r} {key.masked()}"


async def test_mainnet_alone_has_the_sources_that_are_named(tmp_path: Path) -> None:
    async with open_cluster(mainnet(tmp_path)) as cluster:
        assert cluster.price_sources == ()
    named = mainnet(tmp_path, price_sources="coingecko, jupiter")
    async with open_cluster(named) as cluster:
        assert [each.name for each in cluster.price_sources] == ["coingecko", "jupiter"]
    devnet = named.model_copy(update={"solana_network": "devnet"})
    async with open_cluster(devnet) as cluster:
        assert cluster.price_sources == ()


@promise("distant-prices-are-none")
async def test_a_service_holds_its_prices_to_the_settings(tmp_path: Path) -> None:
    said = [SaidPrices(name, {"SOL": (usd, 9)}) for name, usd in (("a", 100), ("b", 104))]
    for bps, apart in ((399, True), (400, False)):
        settings = Settings(
            _env_file=None, solward_home=tmp_path / str(bps), price_max_spread_bps=bps,
            price_max_age_s=10,
        )  # fmt: skip
        async with Solward.open(settings, price_sources=said) as service:
            found = (await service.prices.prices(["SOL"]))["SOL"]
            assert isinstance(found, NoPrice) is apart
            old = {"SOL": Price(Fraction(1), 9, 0)}
            assert "maximum age is 10 s" in str(service.prices.timely(old)["SOL"])
