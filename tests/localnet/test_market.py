from __future__ import annotations

import base64
from decimal import Decimal
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st
from solders.token import ID as TOKEN_PROGRAM
from solders.token.state import Mint, TokenAccount
from tests.market_source import FEE_BPS
from tests.market_venue import trade

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import KnownToken, token_list
from solward_localnet.market import AUTHORITY, POOLS, Pool, genesis_accounts, whole_dollars
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

U64_MAX = 2**64 - 1
reserves = st.integers(min_value=1, max_value=U64_MAX)
payments = st.integers(min_value=0, max_value=U64_MAX)


def test_the_token_list_of_the_localnet_is_the_demo_market() -> None:
    derived = [KnownToken(pool.symbol, str(pool.mint), pool.decimals) for pool in POOLS]
    assert list(token_list("localnet")) == [KnownToken("SOL", WRAPPED_SOL_MINT, 9), *derived]


def test_the_market_opens_at_the_prices_it_names() -> None:
    price = {pool.symbol: _price(pool) for pool in POOLS}
    assert price == {"USDC": Decimal(150), "BONK": Decimal(7_500_000)}


def _price(pool: Pool) -> Decimal:
    """Whole tokens for one SOL."""
    return Decimal(pool.units).scaleb(-pool.decimals) / Decimal(pool.sol).scaleb(-9)


async def test_genesis_holds_real_mints_and_token_accounts() -> None:
    node = await Localnet.open(None, LocalnetOptions(genesis=genesis_accounts, ticker=False))
    try:
        for pool in POOLS:
            mint, sol_vault, mint_vault = [
                (await node.call("getAccountInfo", [str(key), {"encoding": "base64"}]))["value"]
                for key in (pool.mint, pool.sol_vault, pool.mint_vault)
            ]
            assert {each["owner"] for each in (mint, sol_vault, mint_vault)} == {str(TOKEN_PROGRAM)}
            read = Mint.from_bytes(base64.b64decode(mint["data"][0]))
            assert (read.supply, read.decimals, read.is_initialized) == (
                pool.units,
                pool.decimals,
                True,
            )
            # Nobody can make more of it, or freeze a holder.
            assert read.mint_authority is None
            assert read.freeze_authority is None
            for vault, mint_address, amount in (
                (sol_vault, WRAPPED_SOL_MINT, pool.sol),
                (mint_vault, str(pool.mint), pool.units),
            ):
                held = TokenAccount.from_bytes(base64.b64decode(vault["data"][0]))
                assert (str(held.mint), held.owner, held.amount) == (
                    mint_address,
                    AUTHORITY,
                    amount,
                )
                assert (held.delegate, held.close_authority) == (None, None)
            for account, more in ((mint, 0), (mint_vault, 0), (sol_vault, pool.sol)):
                size = len(base64.b64decode(account["data"][0]))
                rent = await node.call("getMinimumBalanceForRentExemption", [size])
                assert account["lamports"] == rent + more
            # The ledger reads them as it reads anybody's.
            supply = (await node.call("getTokenSupply", [str(pool.mint)]))["value"]
            assert (supply["amount"], supply["decimals"]) == (str(pool.units), pool.decimals)
            options = [str(AUTHORITY), {"mint": str(pool.mint)}, {"encoding": "jsonParsed"}]
            (listed,) = (await node.call("getTokenAccountsByOwner", options))["value"]
            assert listed["pubkey"] == str(pool.mint_vault)
            amount = listed["account"]["data"]["parsed"]["info"]["tokenAmount"]["amount"]
            assert amount == str(pool.units)
    finally:
        await node.close()


@given(paid=payments, reserve_in=reserves, reserve_out=reserves)
def test_a_trade_never_lets_the_product_of_the_reserves_fall(
    paid: int, reserve_in: int, reserve_out: int
) -> None:
    done = trade(paid, reserve_in, reserve_out)
    assert 0 <= done.received < reserve_out
    assert (reserve_in + paid) * (reserve_out - done.received) >= reserve_in * reserve_out


@given(paid=payments, more=payments, reserve_in=reserves, reserve_out=reserves)
def test_paying_more_never_gives_less(
    paid: int, more: int, reserve_in: int, reserve_out: int
) -> None:
    least = trade(paid, reserve_in, reserve_out).received
    assert trade(paid + more, reserve_in, reserve_out).received >= least


@given(paid=payments, reserve_in=reserves, reserve_out=reserves)
def test_price_impact_is_a_fraction(paid: int, reserve_in: int, reserve_out: int) -> None:
    impact = trade(paid, reserve_in, reserve_out).price_impact
    assert 0 <= impact <= 1
    assert impact.as_tuple().exponent == -6


@given(paid=payments, reserve_in=reserves, reserve_out=reserves)
def test_rounding_is_against_the_trader_by_less_than_one_unit(
    paid: int, reserve_in: int, reserve_out: int
) -> None:
    received = trade(paid, reserve_in, reserve_out).received
    kept = paid * (10_000 - FEE_BPS)
    # The exact answer is kept * reserve_out / (reserve_in * 10000 + kept).
    whole, divisor = kept * reserve_out, reserve_in * 10_000 + kept
    assert received * divisor <= whole < (received + 1) * divisor


@given(paid=payments, reserve_in=reserves, reserve_out=reserves)
def test_trading_there_and_back_never_gains(paid: int, reserve_in: int, reserve_out: int) -> None:
    assume(reserve_in + paid <= U64_MAX)
    there = trade(paid, reserve_in, reserve_out).received
    back = trade(there, reserve_out - there, reserve_in + paid).received
    assert back <= paid


def test_a_known_trade() -> None:
    done = trade(10**9, POOLS[0].sol, POOLS[0].units)
    # 1 SOL at 150 USDC, less 0.3% and the move of the price: 149.548509...
    assert done.received == 149_548_509
    assert done.price_impact == Decimal("0.003010")


def test_dollars_follow_from_the_reserves_exactly() -> None:
    usdc, bonk = POOLS
    held = {
        str(usdc.sol_vault): 3 * 10**9,
        str(usdc.mint_vault): 500 * 10**6,
        str(bonk.sol_vault): 7 * 10**9,
        str(bonk.mint_vault): 11 * 10**5,
    }
    sol = Fraction(500, 3)
    assert whole_dollars(held) == {
        str(usdc.mint): (Fraction(1), 6),
        WRAPPED_SOL_MINT: (sol, 9),
        str(bonk.mint): (sol * 7 / 11, 5),
    }
    # Without reserves against USDC nothing else has dollars; without its own, a token has none.
    assert whole_dollars(held | {str(usdc.mint_vault): 0}).keys() == {str(usdc.mint)}
    assert str(bonk.mint) not in whole_dollars(held | {str(bonk.sol_vault): 0})
