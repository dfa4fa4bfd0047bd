"""The venue of a localnet's demo market: what it quotes lands, to the unit."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.market_venue import trade
from tests.support.services import settings

from solward.service.service import Solward
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import token_account
from solward.types.errors import InvalidRequest, LedgerUnavailable
from solward.types.ledger import Account
from solward.types.venue import QuoteRequest
from solward.vault.money.request import ADMIN
from solward_localnet.market import POOLS

USDC, BONK = POOLS
SOL = WRAPPED_SOL_MINT


class FakeLedger:
    """What a venue reads of a ledger, changed by the test."""

    def __init__(self, accounts: dict[str, Account | None]) -> None:
        self._accounts = accounts

    async def accounts(self, addresses: list[str]) -> dict[str, Account | None]:
        return {each: self._accounts.get(each) for each in addresses}


@pytest.fixture
async def service(tmp_path: Path) -> Any:
    async with Solward.open(settings(tmp_path)) as opened:
        yield opened


def market(service: Solward) -> Any:
    """The venue with its context."""
    [found] = service.operations.venues.enabled()
    assert found.name == "demo_market"
    return found


def request(source: str, target: str, amount: int) -> QuoteRequest:
    return QuoteRequest(source, target, amount, 50)


@pytest.mark.parametrize(
    ("source", "target", "amount"),
    [
        (SOL, str(USDC.mint), 10**9),
        (str(USDC.mint), SOL, 10**8),
        (str(USDC.mint), str(BONK.mint), 10**8),
    ],
)
async def test_a_quote_is_what_the_reserves_give(
    service: Solward, source: str, target: str, amount: int
) -> None:
    venue = market(service)
    quote = await venue.plugin.quote(request(source, target, amount), venue.context)
    given, kept = amount, Decimal(1)
    for mint, sells_sol in ((source, False), (target, True)):
        if mint != SOL:
            pool = next(each for each in POOLS if str(each.mint) == mint)
            reserves = (pool.sol, pool.units) if sells_sol else (pool.units, pool.sol)
            done = trade(given, *reserves)
            given, kept = done.received, kept * (1 - done.price_impact)
    assert (quote.in_amount, quote.out_amount) == (amount, given)
    assert quote.minimum_out == -(-given * 9_950 // 10_000)
    assert abs(quote.price_impact - (1 - kept)) < Decimal("0.00001")


async def test_a_swap_over_both_pools_lands_as_it_was_quoted(service: Solward) -> None:
    wallet = await service.wallets.create("trader")
    await service.operations.perform("airdrop", wallet.id, ADMIN, {"amount": 2})
    for source, target, amount in (
        ("SOL", "USDC", 1),
        ("USDC", "BONK", 100),
        ("BONK", "SOL", 1_000_000),
    ):
        params = {"inputToken": source, "outputToken": target, "amount": amount}
        record = await service.operations.perform("swap", wallet.id, ADMIN, params)
        assert (record.status, record.details["venue"]) == ("confirmed", "demo_market")


async def test_the_only_signer_is_the_taker_and_the_accounts_are_bounded(service: Solward) -> None:
    venue = market(service)
    quote = await venue.plugin.quote(request(SOL, str(USDC.mint), 10**9), venue.context)
    taker, destination = (str(Keypair().pubkey()) for _ in range(2))
    made = await venue.plugin.instructions(quote, taker, destination, venue.context)
    assert {str(each.pubkey) for each in made.swap.accounts if each.is_signer} == {taker}
    assert destination in {str(each.pubkey) for each in made.swap.accounts if each.is_writable}
    assert len(made.swap.accounts) + 1 == 9
    again = await venue.plugin.instructions(quote, taker, destination, venue.context, 9)
    assert again.swap == made.swap
    with pytest.raises(InvalidRequest, match="at most 8 accounts"):
        await venue.plugin.instructions(quote, taker, destination, venue.context, 8)


async def test_what_the_market_cannot_trade_is_refused_by_name(service: Solward) -> None:
    venue = market(service)
    stranger = str(Keypair().pubkey())
    for asked, said in (
        (request(stranger, SOL, 1), f"does not trade {stranger}"),
        (request(SOL, stranger, 1), f"does not trade {stranger}"),
        (request(SOL, SOL, 1), "the same token"),
        (request(str(BONK.mint), str(USDC.mint), 1), "too small"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            await venue.plugin.quote(asked, venue.context)


async def test_a_ledger_without_the_market_or_with_half_of_it_is_told(service: Solward) -> None:
    venue = market(service)
    found = await service.ledger.accounts(
        [str(key) for pool in POOLS for key in (pool.address, *pool.vaults)]
    )
    vault = token_account(found[str(USDC.mint_vault)])
    assert vault is not None
    assert vault.amount == USDC.units
    asked = request(SOL, str(USDC.mint), 10**9)
    empty = replace(venue.context, ledger=FakeLedger({}))
    with pytest.raises(InvalidRequest, match="no demo market"):
        await venue.plugin.quote(asked, empty)
    half = replace(venue.context, ledger=FakeLedger({**found, str(USDC.mint_vault): None}))
    with pytest.raises(LedgerUnavailable, match="lacks an account or funds"):
        await venue.plugin.quote(asked, half)


async def test_it_is_a_venue_of_localnets_alone(tmp_path: Path) -> None:
    given = {"solana_rpc_url": "http://127.0.0.1:9", "solana_network": "devnet"}
    async with Solward.open(settings(tmp_path, **given)) as service:
        assert "demo_market" in service.live.registry.venues
        assert "demo_market" not in [each.name for each in service.operations.venues.loaded]
