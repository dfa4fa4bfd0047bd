"""A ledger of the older release, whose pools were keys, trades through the program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from tests.database.releases import stored_home
from tests.localnet.test_venue_build import Market
from tests.support.localnet import SOL, Chain, StillClock

from solward.solana.programs import WRAPPED_SOL_MINT
from solward_localnet.ledger import LocalLedger
from solward_localnet.market import POOLS, Pool, genesis_accounts, trade, upgrade
from solward_localnet.market_program import (
    MARKET_PROGRAM,
    program_account,
    program_file,
    seeded,
)
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.sbpf import assemble
from solward_localnet.venue import venue_app


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    stored_home("2ccf004-sqlite", tmp_path / "home")
    return tmp_path / "home" / "localnet.db"


def reserves_of_keys(path: Path) -> dict[str, tuple[int, int]]:
    """Lamports and units the older release's market makers hold."""
    opened = LocalLedger(path, LocalnetOptions(ticker=False))
    try:
        found = {}
        for pool in POOLS:
            maker = seeded(f"{pool.symbol} pool").pubkey()
            account = opened.vm.account(get_associated_token_address(maker, pool.mint))
            units = 0 if account is None else int.from_bytes(account.data[64:72], "little")
            found[pool.symbol] = (opened.vm.balance(maker), units)
        return found
    finally:
        opened.close()


async def units(node: Localnet, account: Pubkey) -> int:
    answer = await node.call("getTokenAccountBalance", [str(account)])
    return int(answer["value"]["amount"])


async def reserves(node: Localnet, pool: Pool) -> tuple[int, int]:
    return await units(node, pool.sol_vault), await units(node, pool.mint_vault)


async def test_the_reserves_pass_to_the_program_and_prices_stay(ledger: Path) -> None:
    old = reserves_of_keys(ledger)
    assert old["USDC"] != (POOLS[0].sol, POOLS[0].units)
    options = LocalnetOptions(clock=StillClock(), ticker=False, upgrade=upgrade)
    node = await Localnet.open(ledger, options)
    try:
        assert {pool.symbol: await reserves(node, pool) for pool in POOLS} == old
        for pool in POOLS:
            maker = seeded(f"{pool.symbol} pool").pubkey()
            gone = (maker, get_associated_token_address(maker, pool.mint))
            answer = await node.call("getMultipleAccounts", [[str(key) for key in gone]])
            assert answer["value"] == [None, None]
            # What is out and what the pools hold is the whole supply, as before.
            supply = await node.call("getTokenSupply", [str(pool.mint)])
            assert supply["value"]["amount"] == str(pool.units)
    finally:
        await node.close()


async def test_a_swap_settles_there_and_is_there_after_the_next_opening(ledger: Path) -> None:
    pool, clock = POOLS[0], StillClock()
    sol, held = reserves_of_keys(ledger)[pool.symbol]
    options = LocalnetOptions(clock=clock, ticker=False, upgrade=upgrade)
    node = await Localnet.open(ledger, options)
    try:
        chain = await Chain.with_payer(node, clock)
        transport = httpx.ASGITransport(venue_app(node.call))
        async with httpx.AsyncClient(transport=transport, base_url="http://venue") as http:
            bought = await Market(chain, http).trade(WRAPPED_SOL_MINT, str(pool.mint), SOL)
    finally:
        await node.close()
    assert bought == trade(SOL, sol, held).received
    node = await Localnet.open(ledger, options)
    try:
        assert await reserves(node, pool) == (sol + SOL, held - bought)
    finally:
        await node.close()


async def test_a_program_of_an_earlier_release_is_replaced_and_nothing_else(
    tmp_path: Path,
) -> None:
    earlier = program_account(assemble("entrypoint:\n mov64 r0, 77\n exit"))
    made = LocalnetOptions(
        ticker=False, genesis=lambda: {**genesis_accounts(), MARKET_PROGRAM: earlier}
    )
    path = tmp_path / "ledger.db"
    LocalLedger(path, made).close()
    opened = LocalLedger(path, replace(made, upgrade=upgrade))
    try:
        changed = {
            address: opened.vm.account(address)
            for address, account in made.genesis().items()  # type: ignore[misc]
            if opened.vm.account(address) != account
        }
    finally:
        opened.close()
    assert {address: account.data for address, account in changed.items() if account} == {
        MARKET_PROGRAM: program_file()
    }
    # What was replaced is stored.
    again = LocalLedger(path, made)
    try:
        stored = again.vm.account(MARKET_PROGRAM)
        assert stored is not None
        assert stored.data == program_file()
    finally:
        again.close()


def test_a_ledger_without_the_market_stays_without() -> None:
    opened = LocalLedger(None, LocalnetOptions(ticker=False, upgrade=upgrade))
    try:
        assert opened.vm.account(MARKET_PROGRAM) is None
        assert [opened.vm.account(pool.sol_vault) for pool in POOLS] == [None, None]
    finally:
        opened.close()
