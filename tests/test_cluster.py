from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.support.grants import SaidPrices

from solward.service.cluster import MarketPrices, open_cluster
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.programs import LOCALNET_USDC_MINT, WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.support.clock import now_ms
from solward.types.errors import LedgerUnavailable, LocalnetError
from solward.vault.grants.dollars import NoPrice, Price
from solward.vault.money.judge.prices import Prices
from solward.vault.money.request import ADMIN

BONK = token_list("localnet").resolve("BONK", "token")


async def test_a_ledger_file_in_use_or_of_another_kind_is_refused_in_words(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, solward_home=tmp_path)
    async with open_cluster(settings):
        with pytest.raises(LocalnetError, match="open in another localnet"):
            async with open_cluster(settings):
                raise AssertionError("one ledger was opened twice")
    settings.localnet_path.write_bytes(b"no ledger" * 1000)
    with pytest.raises(LocalnetError, match="not a ledger"):
        async with open_cluster(settings):
            raise AssertionError("a file that is no ledger was opened")


async def test_the_localnets_market_is_its_price_source(tmp_path: Path) -> None:
    started = now_ms()
    async with open_cluster(Settings(_env_file=None, solward_home=tmp_path)) as cluster:
        found = await Prices(cluster.price_sources).prices(
            [WRAPPED_SOL_MINT, LOCALNET_USDC_MINT, BONK, "unknown"]
        )
    known = {asset: price for asset, price in found.items() if isinstance(price, Price)}
    assert {asset: (price.usd, price.decimals) for asset, price in known.items()} == {
        "SOL": (Fraction(150), 9),
        LOCALNET_USDC_MINT: (Fraction(1), 6),
        BONK: (Fraction(2, 100_000), 5),
    }
    assert all(started <= price.taken_ms <= now_ms() for price in known.values())
    assert found["unknown"] == NoPrice("the price source localnet has no price for this asset")


async def test_a_trade_on_the_localnet_moves_the_prices_of_the_service(tmp_path: Path) -> None:
    async with Solward.open(Settings(_env_file=None, solward_home=tmp_path)) as service:
        wallet = await service.wallets.create("trader")
        await service.operations.perform("airdrop", wallet.id, ADMIN, {"amount": 2})
        before = await service.prices.prices(["SOL", BONK, LOCALNET_USDC_MINT])
        swap = {"inputToken": "SOL", "outputToken": "BONK", "amount": 1}
        assert (await service.operations.perform("swap", wallet.id, ADMIN, swap)).error is None
        source = MarketPrices(service.ledger)
        after = await source.prices(["SOL", BONK, LOCALNET_USDC_MINT])
        # One more SOL and the BONK it bought less in the pool: BONK is dearer, the rest as it was.
        assert after[BONK].usd > before[BONK].usd
        for asset in ("SOL", LOCALNET_USDC_MINT):
            assert after[asset].usd == before[asset].usd


async def test_a_market_without_reserves_or_a_ledger_that_is_away_gives_no_price(
    tmp_path: Path,
) -> None:
    class Empty:
        async def accounts(self, addresses: Any) -> dict[str, Any]:
            return dict.fromkeys(addresses)

    class Away:
        async def accounts(self, _addresses: Any) -> dict[str, Any]:
            raise LedgerUnavailable("away")

    async def read(ledger: Any) -> Any:
        return await Prices([MarketPrices(ledger)]).prices(["SOL", LOCALNET_USDC_MINT])

    none = NoPrice("the price source localnet has no price for this asset")
    dollar = await read(Empty())
    assert dollar["SOL"] == none
    assert dollar[LOCALNET_USDC_MINT].usd == 1
    assert (await read(Away()))["SOL"] == NoPrice("the price source localnet did not answer")


async def test_no_other_network_has_a_price_source(tmp_path: Path) -> None:
    settings = Settings(
        _env_file=None,
        solward_home=tmp_path,
        solana_network="devnet",
        solana_rpc_url="http://127.0.0.1:9",
    )
    async with open_cluster(settings) as cluster:
        found = await Prices(cluster.price_sources).prices(["SOL"])
    assert found == {"SOL": NoPrice("there is no price source on this network")}


async def test_a_service_may_be_given_its_price_sources(tmp_path: Path) -> None:
    said = SaidPrices("mine", {"SOL": (77, 9)})
    settings = Settings(_env_file=None, solward_home=tmp_path)
    async with Solward.open(settings, price_sources=[said]) as service:
        assert (await service.prices.prices(["SOL"]))["SOL"].usd == 77
