"""The venue of Raydium's pools: what it reads, what it refuses, and its arithmetic.

`tests/operations/test_real_programs.py` has the same against the program itself.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from tests.promises import promise
from tests.support.market import CPMM, CpmmPool, fee_mint, pool_of, raydium_venue
from tests.support.programs import mint_account, token_account

from solward import InvalidRequest, LedgerUnavailable
from solward.solana.programs import CLOCK_SYSVAR
from solward.solana.tokens import associated_address
from solward.types.ledger import Account
from solward.types.venue import Quote, QuoteRequest, SwapInstructions, VenueContext
from solward_plugins.venues.raydium_cpmm import swap_output

SOL = WRAPPED_SOL_MINT
USDC = Pubkey.from_string("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
RESERVES = {SOL: 100_000 * 10**9, USDC: 15_000_000 * 10**6}
TAKER, DESTINATION = (str(Keypair().pubkey()) for _ in range(2))
NOW = 1_700_000_000


class Ledger:
    """Accounts as a node tells them."""

    def __init__(self, *pools: CpmmPool, decimals: int = 6) -> None:
        self.states: dict[str, Account | None] = {
            CLOCK_SYSVAR: Account(1, CLOCK_SYSVAR, struct.pack("<QqQQq", 9, 0, 3, 4, NOW)),
            str(SOL): plain(mint_account(9)),
            str(USDC): plain(mint_account(decimals)),
        }
        for pool in pools:
            self.put(pool)

    def put(self, pool: CpmmPool) -> None:
        self.states |= {str(key): plain(each) for key, each in pool.accounts().items()}

    async def accounts(self, addresses: Sequence[str]) -> Mapping[str, Account | None]:
        return {address: self.states.get(address) for address in addresses}


def plain(account: Any) -> Account:
    return Account(account.lamports, str(account.owner), account.data)


def context(ledger: Ledger, *pools: CpmmPool) -> VenueContext:
    return VenueContext(
        httpx.AsyncClient(),
        ledger=cast(Any, ledger),
        pools=tuple(str(each.address) for each in pools),
    )


def selling(mint: Pubkey, amount: int, slippage_bps: int = 50) -> QuoteRequest:
    other = USDC if mint == SOL else SOL
    return QuoteRequest(str(mint), str(other), amount, slippage_bps)


async def quoted(pool: CpmmPool, request: QuoteRequest) -> Quote:
    return await raydium_venue().quote(request, context(Ledger(pool), pool))


async def test_a_quote_is_what_the_program_would_pay() -> None:
    """1 SOL: 0.25% stays (2,500,000 lamports), 997,500,000 trade against the reserves."""
    quote = await quoted(pool_of(RESERVES), selling(SOL, 10**9))
    out = 997_500_000 * RESERVES[USDC] // (RESERVES[SOL] + 997_500_000)
    assert (quote.in_amount, quote.out_amount) == (10**9, out) == (10**9, 149_623_507)
    # A half percent less, rounded up.
    assert quote.minimum_out == 148_875_390
    assert 0.0025 < quote.price_impact < 0.0026


async def test_the_other_direction_takes_the_other_vault_first() -> None:
    pool = pool_of(RESERVES)
    quote = await quoted(pool, selling(USDC, 150 * 10**6))
    assert quote.out_amount == 149_625_000 * RESERVES[SOL] // (RESERVES[USDC] + 149_625_000)


async def test_fees_that_lie_in_the_vaults_do_not_trade() -> None:
    plain_pool = pool_of(RESERVES)
    owing = pool_of(RESERVES, owed=(10**9, 10**10, 10**11, 10**12), creator_owed=(77, 99))
    request = selling(SOL, 10**9)
    assert (await quoted(owing, request)).out_amount == (
        await quoted(plain_pool, request)
    ).out_amount


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        # Of what is sold: both fees at once, rounded up.
        (0, swap_output(10**9, 10**14, 15 * 10**12, fee=3_500)),
        # Of what is sold only where that is the mint the fee is taken in, else of what is bought.
        (1, None),
        (2, None),
    ],
)
async def test_a_creators_fee_is_taken_where_the_pool_says(on: int, expected: int | None) -> None:
    pool = pool_of(RESERVES, creator_fee=1_000, creator_on=on)
    first = pool.mints[0] == SOL
    if expected is None:
        if (on == 1) == first:
            expected = swap_output(10**9, 10**14, 15 * 10**12, fee=3_500)
        else:
            gross = swap_output(10**9, 10**14, 15 * 10**12, fee=2_500)
            expected = gross - -(-gross * 1_000 // 1_000_000)
    assert (await quoted(pool, selling(SOL, 10**9))).out_amount == expected


async def test_a_creators_fee_that_is_switched_off_is_none() -> None:
    pool = pool_of(RESERVES, creator_fee=1_000)
    assert (await quoted(pool, selling(SOL, 10**9))).out_amount == 149_623_507


@given(
    st.integers(1, 2**64 - 1),
    st.integers(1, 2**64 - 1),
    st.integers(1, 2**64 - 1),
    st.integers(0, 500_000),
    st.integers(0, 500_000),
    st.booleans(),
)
def test_no_trade_takes_more_than_the_pool_loses_by_its_product(
    paid: int, reserve_in: int, reserve_out: int, fee: int, creator: int, on_input: bool
) -> None:
    given_out = swap_output(
        paid, reserve_in, reserve_out, fee=fee, creator_fee=creator, creator_on_input=on_input
    )
    assert 0 <= given_out < reserve_out or given_out == 0
    assert (reserve_in + paid) * (reserve_out - given_out) >= reserve_in * reserve_out


async def test_the_best_of_several_pools_of_a_pair_is_taken() -> None:
    cheap = pool_of(RESERVES, fee=100)
    dear = pool_of(RESERVES)
    deep = pool_of({SOL: 10 * RESERVES[SOL], USDC: 10 * RESERVES[USDC]}, fee=3_000)
    pools = (dear, cheap, deep)
    where = context(Ledger(*pools), *pools)
    quote = await raydium_venue().quote(selling(SOL, 10**9), where)
    assert quote.raw == {"pool": str(cheap.address)}
    # The deeper one once the trade is large.
    quote = await raydium_venue().quote(selling(SOL, 10**13), where)
    assert quote.raw == {"pool": str(deep.address)}


async def made(ledger: Ledger, pool: CpmmPool, quote: Quote) -> SwapInstructions:
    return await raydium_venue().instructions(quote, TAKER, DESTINATION, context(ledger, pool))


@pytest.mark.parametrize("sold", [SOL, USDC])
async def test_the_instruction_is_the_programs_swap_base_input(sold: Pubkey) -> None:
    pool = pool_of(RESERVES)
    ledger = Ledger(pool)
    request = selling(sold, 10**6)
    quote = await raydium_venue().quote(request, context(ledger, pool))
    answer = await made(ledger, pool, quote)
    swap = answer.swap
    side = pool.mints.index(sold)
    sides = (side, 1 - side)
    assert swap.program_id == CPMM
    assert bytes(swap.data) == bytes.fromhex("8fbe5adac41e33de") + struct.pack(
        "<QQ", 10**6, quote.minimum_out
    )
    assert [(str(meta.pubkey), meta.is_signer, meta.is_writable) for meta in swap.accounts] == [
        (TAKER, True, False),
        ("GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL", False, False),
        (str(pool.config), False, False),
        (str(pool.address), False, True),
        (associated_address(TAKER, str(sold), str(TOKEN_PROGRAM_ID)), False, True),
        (DESTINATION, False, True),
        *((str(pool.vaults[each]), False, True) for each in sides),
        *((str(TOKEN_PROGRAM_ID), False, False) for _ in sides),
        *((str(pool.mints[each]), False, False) for each in sides),
        (str(pool.observation), False, True),
    ]
    assert (answer.accounts, answer.tables, answer.quote) == ((), {}, quote)


async def test_a_price_that_moved_keeps_the_minimum_that_was_quoted() -> None:
    pool = pool_of(RESERVES)
    ledger = Ledger(pool)
    quote = await raydium_venue().quote(selling(SOL, 10**9, 100), context(ledger, pool))
    ledger.put(replace(pool, reserves=(pool.reserves[0] * 2, pool.reserves[1] * 2)))
    ledger.put(replace(pool, reserves=tuple(each * 99 // 100 for each in pool.reserves)))  # type: ignore[arg-type]
    answer = await made(ledger, pool, quote)
    assert answer.quote.out_amount < quote.out_amount
    assert bytes(answer.swap.data)[16:] == quote.minimum_out.to_bytes(8, "little")


async def test_a_quote_of_a_pool_that_is_not_configured_is_refused() -> None:
    pool, other = pool_of(RESERVES), pool_of(RESERVES)
    ledger = Ledger(pool, other)
    quote = await raydium_venue().quote(selling(SOL, 10**9), context(ledger, other))
    with pytest.raises(LedgerUnavailable, match="pool is not configured"):
        await made(ledger, pool, quote)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"status": 4}, "does not trade now"),
        ({"opens_at": NOW + 1}, "does not trade now"),
        ({"fee": 1_000_000}, "amount is too small"),
    ],
)
async def test_a_pool_that_trades_nothing_now_is_a_refusal(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        await quoted(pool_of(RESERVES, **options), selling(SOL, 10**9))


async def test_deposits_and_withdrawals_that_are_stopped_stop_no_swap() -> None:
    await quoted(pool_of(RESERVES, status=3, opens_at=NOW), selling(SOL, 10**9))


async def test_too_little_to_get_anything_for_is_a_refusal() -> None:
    with pytest.raises(InvalidRequest, match="amount is too small"):
        await quoted(pool_of(RESERVES), selling(SOL, 1))


async def test_another_pair_is_a_refusal() -> None:
    other = str(Keypair().pubkey())
    with pytest.raises(InvalidRequest, match="No pool of RAYDIUM_CPMM_POOLS trades this pair"):
        await quoted(pool_of(RESERVES), QuoteRequest(str(SOL), other, 10**9, 50))


def foreign(account: Account) -> Account:
    return replace(account, owner=str(Keypair().pubkey()))


NO_POOL = "is no pool of Raydium's CPMM program on this network"
CONTRADICT = "contradict each other"


@promise("raydium-quotes-exact")
@pytest.mark.parametrize(
    ("address", "state", "reason"),
    [
        ("address", None, NO_POOL),
        ("address", foreign, NO_POOL),
        ("address", lambda each: replace(each, data=each.data[:-1]), NO_POOL),
        ("address", lambda each: replace(each, data=b"x" + each.data[1:]), NO_POOL),
        ("config", None, CONTRADICT),
        ("config", foreign, CONTRADICT),
        ("config", lambda each: replace(each, data=b"x" + each.data[1:]), CONTRADICT),
        ("config", lambda each: replace(each, data=each.data + b"x"), CONTRADICT),
        ("vault", None, CONTRADICT),
        ("vault", foreign, CONTRADICT),
        # Whoever writes a pool's account can name any account as its vault.
        ("vault", lambda _: plain(token_account(SOL, Keypair().pubkey(), 10**15)), CONTRADICT),
        ("vault", lambda _: plain(token_account(Keypair().pubkey(), CPMM, 10**15)), CONTRADICT),
        ("mint", None, CONTRADICT),
        ("mint", lambda each: replace(each, owner=str(TOKEN_2022_PROGRAM_ID)), CONTRADICT),
    ],
)
async def test_accounts_that_are_not_what_a_pool_has_are_refused(
    address: str, state: Any, reason: str
) -> None:
    pool = pool_of(RESERVES)
    ledger = Ledger(pool)
    key = str(
        {
            "address": pool.address,
            "config": pool.config,
            "vault": pool.vaults[pool.mints.index(SOL)],
            "mint": SOL,
        }[address]
    )
    found = ledger.states[key]
    ledger.states[key] = None if state is None else state(found)
    with pytest.raises(LedgerUnavailable, match=reason):
        await raydium_venue().quote(selling(SOL, 10**9), context(ledger, pool))


async def test_a_vault_that_holds_less_than_is_owed_is_refused() -> None:
    pool = pool_of(RESERVES)
    owing = replace(pool, owed=(2**62, 2**62, 0, 0))
    ledger = Ledger(pool)
    ledger.states[str(pool.address)] = plain(owing.accounts()[pool.address])
    with pytest.raises(LedgerUnavailable, match=CONTRADICT):
        await raydium_venue().quote(selling(SOL, 10**9), context(ledger, pool))


async def test_a_ledger_without_a_clock_is_a_failure() -> None:
    pool = pool_of(RESERVES)
    ledger = Ledger(pool)
    ledger.states[CLOCK_SYSVAR] = None
    with pytest.raises(LedgerUnavailable, match="no clock"):
        await raydium_venue().quote(selling(SOL, 10**9), context(ledger, pool))


async def test_transfer_fees_of_either_mint_are_counted_as_the_program_does() -> None:
    programs = tuple(
        TOKEN_2022_PROGRAM_ID if mint == USDC else TOKEN_PROGRAM_ID
        for mint in sorted(RESERVES, key=bytes)
    )
    pool = pool_of(RESERVES, programs=programs)
    ledger = Ledger(pool)
    ledger.states[str(USDC)] = Account(1, str(TOKEN_2022_PROGRAM_ID), fee_mint(100, 10**12))
    where = context(ledger, pool)
    bought = await raydium_venue().quote(selling(SOL, 10**9), where)
    gross = swap_output(10**9, RESERVES[SOL], RESERVES[USDC], fee=2_500)
    assert bought.out_amount == gross - -(-gross // 100)
    sold = await raydium_venue().quote(selling(USDC, 10**8), where)
    assert sold.out_amount == swap_output(99 * 10**6, RESERVES[USDC], RESERVES[SOL], fee=2_500)
    # No price moved by what the mints withhold.
    assert max(bought.price_impact, sold.price_impact) < 0.003
