"""Swaps by other people's programs, as they run on mainnet: Raydium's pools and Jupiter's router.

None of the programs is in this repository. `SOLWARD_TEST_PROGRAMS` names a folder with the ELF
files `CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C.so` (Raydium's constant product pools) and
`JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4.so` (Jupiter's router, version 6), as `solana program
dump` writes them; without it all of it is skipped. The tests execute the product's own money path
up to the landed transaction.
"""

from __future__ import annotations

import random
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.account import Account
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.constants import WRAPPED_SOL_MINT as SOL_MINT
from spl.token.instructions import create_idempotent_associated_token_account
from tests.operations.test_hostile_venue import in_words
from tests.promises import promise
from tests.support.localnet import rent
from tests.support.market import (
    CPMM,
    JUPITER,
    CpmmPool,
    Hop,
    fee_mint,
    pool_of,
    raydium_venue,
    route,
    shared_accounts,
    shared_route,
)
from tests.support.plugins import built_ins
from tests.support.programs import real_programs
from tests.support.swaps import (
    BONK_POOL,
    FEE,
    RENT,
    SOL,
    USDC_POOL,
    SwapBench,
    ata,
    close,
    market_and_makers,
    open_swaps,
    whole,
    wrap,
)

from solward.operations.venues import Venue
from solward.plugins import load_registry
from solward.solana.message import required_signers
from solward.types.errors import TransactionFailed
from solward.types.record import TransactionRecord
from solward.types.venue import Quote, VenueContext
from solward.vault.guardrails.rules import Policy
from solward.vault.money.request import ADMIN
from solward.vault.store import attempts, pockets
from solward_plugins.venues.raydium_cpmm import swap_output

USDC_MINT, BONK_MINT = USDC_POOL.mint, BONK_POOL.mint
NAMES = {SOL_MINT: "SOL", USDC_MINT: "USDC", BONK_MINT: "BONK"}
DECIMALS = {SOL_MINT: 9, USDC_MINT: 6, BONK_MINT: 5}
_TABLES = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")


@dataclass
class Market:
    """The pools of a ledger, and where their addresses can be looked up."""

    pools: Sequence[CpmmPool]
    table: Pubkey

    @classmethod
    def of(cls, *pools: CpmmPool) -> Market:
        return cls(pools, Keypair().pubkey())

    @property
    def looked_up(self) -> list[Pubkey]:
        """What a router's answer has in a table: all that no user chooses."""
        found = [JUPITER, CPMM, *DECIMALS, *shared_accounts(list(DECIMALS))]
        for pool in self.pools:
            found += [pool.authority, pool.config, pool.address, pool.observation, *pool.vaults]
        return list(dict.fromkeys(found))

    def genesis(self, *programs: Pubkey) -> Callable[[], Mapping[Pubkey, Account]]:
        real = real_programs(*programs)
        header = struct.pack("<IQQBB32sH", 1, 2**64 - 1, 0, 0, 0, bytes(32), 0)
        table = header + b"".join(map(bytes, self.looked_up))
        made = {self.table: Account(rent(len(table)), table, _TABLES)}
        for pool in self.pools:
            made |= pool.accounts()
        return lambda: {
            **market_and_makers(),
            **real,
            **made,
            **shared_accounts(list(DECIMALS)),
        }


async def swapped_by(
    swaps: SwapBench, venue: Venue, sold: Pubkey, bought: Pubkey, amount: Decimal
) -> TransactionRecord:
    params = {"inputToken": NAMES[sold], "outputToken": NAMES[bought], "amount": amount}
    operations = swaps.bench.operations(venues=[venue])
    record = await operations.perform("swap", swaps.bench.wallet.id, ADMIN, params)
    await is_one_transaction(swaps, record)
    return record


async def is_one_transaction(swaps: SwapBench, record: TransactionRecord) -> None:
    """What landed has the signatures of wallet and pocket, and the version that is set; in version
    1 all accounts stand in its bytes."""
    assert record.signature is not None
    wire = await swaps.bench.ledger.transaction_wire(record.signature)
    assert wire is not None
    async with swaps.bench.database.read() as connection:
        [attempt] = await attempts.of_transaction(connection, record.id)
        pocket = (await pockets.of_transactions(connection, [record.id]))[record.id]
    assert attempt.wire == wire
    message = VersionedTransaction.from_bytes(wire).message
    is_v0 = swaps.bench.engine._options.transaction_version == 0
    assert isinstance(message, MessageV0 if is_v0 else MessageV1)
    assert required_signers(message) == (swaps.address, pocket.address)


async def has(swaps: SwapBench, mint: Pubkey) -> int:
    return await (swaps.lamports() if mint == SOL_MINT else swaps.units(mint))


async def nothing_is_left(swaps: SwapBench) -> None:
    """No pocket holds lamports or an account."""
    async with swaps.bench.database.read() as connection:
        used = await pockets.of_wallet(connection, swaps.bench.wallet.id)
    assert used
    for pocket in used:
        assert await swaps.bench.lamports(pocket.address) == 0
        for mint in DECIMALS:
            key = Pubkey.from_string(pocket.address)
            assert await swaps.bench.ledger.account(str(ata(key, mint))) is None


# Raydium's pools, without a router.


@asynccontextmanager
async def direct(
    folder: Path, market: Market, **options: Any
) -> AsyncIterator[tuple[SwapBench, Venue]]:
    async with open_swaps(folder, genesis=market.genesis(CPMM), **options) as swaps:
        pools = tuple(str(pool.address) for pool in market.pools)
        context = VenueContext(swaps.http, ledger=swaps.bench.ledger, pools=pools)
        yield swaps, Venue(raydium_venue(), context)


@promise("raydium-quotes-exact", "swap-in-version-1")
@pytest.mark.parametrize("version", ["auto", 0])
async def test_a_pool_gives_to_the_unit_what_was_quoted_in_both_directions(
    tmp_path: Path, version: Any
) -> None:
    """With fees and reserves of any size, each trade at the price that the one before left."""
    choose = random.Random(7)
    pools = []
    for _ in range(6):
        reserves = {
            SOL_MINT: choose.randrange(10**11, 10**15),
            USDC_MINT: choose.randrange(10**10, 10**14),
        }
        owed = tuple(choose.randrange(0, 10**9) for _ in range(4))
        pools.append(pool_of(reserves, fee=choose.randrange(0, 50_000), owed=owed))
    market = Market.of(*pools)
    async with direct(tmp_path, market, transaction_version=version) as (swaps, venue):
        for pool in pools:
            here = Venue(venue.plugin, VenueContext(
                swaps.http, ledger=swaps.bench.ledger, pools=(str(pool.address),)
            ))  # fmt: skip
            for sold, bought in ((SOL_MINT, USDC_MINT), (USDC_MINT, SOL_MINT)):
                held = await has(swaps, bought)
                units = choose.randrange(10**8, 10**9) if sold == SOL_MINT else None
                units = units or choose.randrange(1, await swaps.units(USDC_MINT))
                quote = await swaps.bench.operations(venues=[here]).quote(
                    {
                        "inputToken": NAMES[sold],
                        "outputToken": NAMES[bought],
                        "amount": whole(units, DECIMALS[sold]),
                    }
                )
                record = await swapped_by(swaps, here, sold, bought, whole(units, DECIMALS[sold]))
                arrived = await has(swaps, bought) - held
                arrived += FEE if bought == SOL_MINT else 0
                assert arrived == quote.out_amount
                assert record.details["outputAmount"] == whole(arrived, DECIMALS[bought])
                assert record.details["venue"] == "raydium_cpmm"
        await nothing_is_left(swaps)


async def test_a_pool_that_stops_is_told_before_anything_is_signed(tmp_path: Path) -> None:
    pool = pool_of({SOL_MINT: 10**14, USDC_MINT: 15 * 10**12}, status=4)
    async with direct(tmp_path, Market.of(pool)) as (swaps, venue):
        with pytest.raises(Exception, match="does not trade now"):
            await swapped_by(swaps, venue, SOL_MINT, USDC_MINT, Decimal(1))
        assert await swaps.sent() == 0


async def test_a_sale_of_sol_costs_the_amount_fee_and_rent(tmp_path: Path) -> None:
    pool = pool_of({SOL_MINT: 10**14, USDC_MINT: 15 * 10**12})
    async with direct(tmp_path, Market.of(pool)) as (swaps, venue):
        before = await swaps.lamports()
        await swapped_by(swaps, venue, SOL_MINT, USDC_MINT, Decimal(1))
        assert before - await swaps.lamports() == SOL + FEE + RENT
        assert await swaps.units(USDC_MINT) == swap_output(SOL, 10**14, 15 * 10**12, fee=2_500)


@promise("raydium-quotes-exact")
async def test_a_mint_with_a_transfer_fee_trades_net_of_it_in_both_directions(
    tmp_path: Path,
) -> None:
    """1% stays with the mint at every transfer: into the pocket, into the pool, and out of it."""
    mint = Keypair().pubkey()
    reserves = {SOL_MINT: 10**14, mint: 15 * 10**12}
    first = mint == min(reserves, key=bytes)
    programs = (
        (TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID)
        if first
        else (TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID)
    )
    pool = pool_of(reserves, programs=programs)
    market = Market.of(pool)
    real = market.genesis(CPMM)
    state = fee_mint(100, 10**12)
    vault = pool.vaults[0 if first else 1]

    def genesis() -> Mapping[Pubkey, Account]:
        made = dict(real())
        plain = made[vault]
        # What every account of such a mint has: its kind, and what it withheld.
        data = plain.data + b"\2" + struct.pack("<HHQ", 2, 8, 0)
        made[vault] = Account(rent(len(data)), data, TOKEN_2022_PROGRAM_ID)
        made[mint] = Account(rent(len(state)), state, TOKEN_2022_PROGRAM_ID)
        return made

    allowed = Policy(regulated_mints=frozenset({str(mint)}))
    async with open_swaps(tmp_path, genesis=genesis, policy=allowed) as swaps:
        context = VenueContext(swaps.http, ledger=swaps.bench.ledger, pools=(str(pool.address),))
        operations = swaps.bench.operations(venues=[Venue(raydium_venue(), context)])

        async def swap(sold: str, bought: str, amount: Decimal) -> TransactionRecord:
            params = {"inputToken": sold, "outputToken": bought, "amount": amount}
            record = await operations.perform("swap", swaps.bench.wallet.id, ADMIN, params)
            await is_one_transaction(swaps, record)
            return record

        record = await swap("SOL", str(mint), Decimal(1))
        gross = swap_output(SOL, 10**14, 15 * 10**12, fee=2_500)
        arrived = gross - -(-gross // 100)
        assert record.details["outputAmount"] == whole(arrived, 6)
        before = await swaps.lamports()
        record = await swap(str(mint), "SOL", Decimal(100))
        # Of what each trade leaves to protocol and fund nothing trades: 16% of its fee.
        into_pool = 10**8 * 99 // 100 * 99 // 100
        expected = swap_output(
            into_pool, 15 * 10**12 - gross, 10**14 + SOL - SOL * 25 // 10_000 * 16 // 100, fee=2_500
        )
        assert await swaps.lamports() - before + FEE == expected
        assert record.details["outputAmount"] == whole(expected, 9)


# Jupiter's router over those pools.

Form = Callable[..., Instruction]


@dataclass
class Router:
    """What the API of the router would answer, of one form of its routes, made of `hops`."""

    market: Market
    form: Form
    delivers: bool = False

    def hops(self, sold: Pubkey, bought: Pubkey) -> list[Hop]:
        for pool in self.market.pools:
            if {sold, bought} == set(pool.mints):
                return [Hop(pool, sold)]
        for pool in self.market.pools:
            if sold in pool.mints:
                first = Hop(pool, sold)
                return [first, *self.hops(first.bought, bought)]
        raise AssertionError

    async def answer(self, request: httpx.Request) -> httpx.Response:
        asked = request.url.params
        sold, bought = (Pubkey.from_string(asked[f"{each}Mint"]) for each in ("input", "output"))
        taker = Pubkey.from_string(asked["taker"])
        slippage = int(asked["slippageBps"])
        hops = self.hops(sold, bought)
        amount = out = int(asked["amount"])
        for hop in hops:
            side = hop.pool.mints.index(hop.sold)
            paid, paying = hop.pool.reserves[side], hop.pool.reserves[1 - side]
            out = swap_output(out, paid, paying, fee=hop.pool.fee)
        to = Pubkey.from_string(asked.get("destinationTokenAccount") or str(ata(taker, bought)))
        more = {"delivers": True} if self.delivers else {}
        swap = self.form(hops, taker, to, amount, out, slippage, **more)
        own = [] if self.form is shared_route else [hop.bought for hop in hops[:-1]]
        own += [bought] if self.delivers else []
        setup = [create_idempotent_associated_token_account(taker, taker, mint) for mint in own]
        least = -(-out * (10_000 - slippage) // 10_000)
        return httpx.Response(
            200,
            json={
                "inputMint": str(sold),
                "outputMint": str(bought),
                "inAmount": str(amount),
                "outAmount": str(out),
                "otherAmountThreshold": str(least),
                "swapMode": "ExactIn",
                "slippageBps": slippage,
                "priceImpactPct": "0",
                "routePlan": [],
                "computeBudgetInstructions": [],
                "setupInstructions": list(map(in_words, setup)),
                "swapInstruction": in_words(swap),
                "cleanupInstruction": None,
                "otherInstructions": [],
                "addressesByLookupTableAddress": {
                    str(self.market.table): list(map(str, self.market.looked_up))
                },
            },
        )


FORMS = {
    "route": (route, False),
    "route that delivers elsewhere": (route, True),
    "shared_accounts_route": (shared_route, False),
}


@asynccontextmanager
async def routed(
    folder: Path, form: str, **options: Any
) -> AsyncIterator[tuple[SwapBench, Venue, Router]]:
    """The built-in plugin `jupiter` on an API whose instructions are the real router's."""
    market = Market.of(
        pool_of({SOL_MINT: 10**14, USDC_MINT: 15 * 10**12}),
        pool_of({USDC_MINT: 15 * 10**12, BONK_MINT: 75 * 10**15}, fee=10_000),
    )
    router = Router(market, *FORMS[form])
    async with open_swaps(folder, genesis=market.genesis(CPMM, JUPITER), **options) as swaps:
        transport = httpx.MockTransport(router.answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://router") as http:
            plugin = load_registry(entry_points=built_ins("jupiter")).venues["jupiter"]
            yield swaps, Venue(plugin, VenueContext(http)), router


@promise("jupiter-router-swaps", "swap-in-version-1")
@pytest.mark.parametrize("version", ["auto", 0])
@pytest.mark.parametrize("form", FORMS)
async def test_the_real_router_swaps_both_ways_over_one_pool_and_over_two(
    tmp_path: Path, form: str, version: Any
) -> None:
    options = {"transaction_version": version}
    async with routed(tmp_path, form, **options) as (swaps, venue, router):
        for sold, bought, amount in (
            (SOL_MINT, USDC_MINT, 10**9),
            (USDC_MINT, SOL_MINT, 50 * 10**6),
            (USDC_MINT, BONK_MINT, 20 * 10**6),
            (SOL_MINT, BONK_MINT, 10**9),
            (BONK_MINT, SOL_MINT, 10**6 * 10**5),
            (BONK_MINT, USDC_MINT, 10**5 * 10**5),
        ):
            held = await has(swaps, bought)
            record = await swapped_by(swaps, venue, sold, bought, whole(amount, DECIMALS[sold]))
            assert record.details["venue"] == "jupiter"
            arrived = await has(swaps, bought) - held + (FEE if bought == SOL_MINT else 0)
            assert record.details["outputAmount"] == whole(arrived, DECIMALS[bought])
            for hop in router.hops(sold, bought):
                assert await swaps.held(hop.pool.vaults[0]) > 0
            await nothing_is_left(swaps)
            # The reserves of now, for the next quote.
            for pool in router.market.pools:
                before = pool.reserves
                state = await swaps.bench.ledger.account(str(pool.address))
                assert state is not None
                owed = struct.unpack_from("<QQQQ", state.data, 341)
                now = [await swaps.held(vault) for vault in pool.vaults]
                pool.reserves = (now[0] - owed[0] - owed[2], now[1] - owed[1] - owed[3])
                used = any(hop.pool is pool for hop in router.hops(sold, bought))
                assert (pool.reserves != before) == used


@promise("raydium-quotes-exact")
async def test_losing_the_api_is_not_losing_swaps(tmp_path: Path) -> None:
    async with routed(tmp_path, "route") as (swaps, jupiter, router):
        pools = tuple(str(pool.address) for pool in router.market.pools)
        own = VenueContext(swaps.http, ledger=swaps.bench.ledger, pools=pools)
        operations = swaps.bench.operations(venues=[jupiter, Venue(raydium_venue(), own)])

        async def sold(into: str) -> str:
            params = {"inputToken": "SOL", "outputToken": into, "amount": Decimal("0.1")}
            record = await operations.perform("swap", swaps.bench.wallet.id, ADMIN, params)
            return str(record.details["venue"])

        # Equal offers: the first one makes it. Over two pools there is no other.
        assert await sold("USDC") == "jupiter"
        assert await sold("BONK") == "jupiter"
        honest = router.answer

        async def worse(request: httpx.Request) -> httpx.Response:
            answer = await honest(request)
            body = answer.json()
            for name in ("outAmount", "otherAmountThreshold"):
                body[name] = str(int(body[name]) * 99 // 100 + 1)
            return httpx.Response(200, json=body)

        async def away(_request: httpx.Request) -> httpx.Response:
            return httpx.Response(503)

        for answer in (worse, away):
            jupiter.context.http._transport = httpx.MockTransport(answer)  # type: ignore[attr-defined]
            assert await sold("USDC") == "raydium_cpmm"
        with pytest.raises(TransactionFailed, match="No swap venue made an offer"):
            await sold("BONK")


@pytest.mark.parametrize("form", FORMS)
async def test_a_route_that_gives_less_than_was_quoted_costs_no_amount(
    tmp_path: Path, form: str
) -> None:
    """The router is told a minimum of nothing: only the assertion holds it."""
    async with routed(tmp_path, form) as (swaps, venue, router):

        def loose(*given: Any, **more: Any) -> Instruction:
            *rest, quoted, _slippage = given
            return FORMS[form][0](*rest, quoted // 10**6, 10_000, **more)

        router.form = loose
        # What the API believes of the pool, which holds less.
        pool = router.market.pools[0]
        believed = list(pool.reserves)
        side = pool.mints.index(USDC_MINT)
        believed[side] = believed[side] * 102 // 100
        pool.reserves = (believed[0], believed[1])
        before = await swaps.lamports()
        with pytest.raises(TransactionFailed):
            await swapped_by(swaps, venue, SOL_MINT, USDC_MINT, Decimal(1))
        assert await swaps.lamports() == before
        assert await swaps.sent() == 0


@pytest.mark.parametrize("form", ["route", "shared_accounts_route"])
async def test_whole_transactions_of_the_real_router_are_signed_by_the_pocket_alone(
    tmp_path: Path, form: str
) -> None:
    async with routed(tmp_path, form) as (swaps, _, router):
        make = FORMS[form][0]

        async def build(quote: Quote, wallet: str) -> bytes:
            taker = Pubkey.from_string(wallet)
            sold, bought = map(Pubkey.from_string, (quote.input_mint, quote.output_mint))
            hops = router.hops(sold, bought)
            swap = make(hops, taker, ata(taker, bought), quote.in_amount, quote.out_amount, 50)
            opened = [create_idempotent_associated_token_account(taker, taker, bought)]
            if sold == SOL_MINT:
                opened += wrap(taker, quote.in_amount)
            closing = [close(taker, SOL_MINT, taker)]
            return await swaps.wire([*opened, swap, *closing], payer=taker)

        def requote(quote: Quote) -> Quote:
            hop = router.hops(*map(Pubkey.from_string, (quote.input_mint, quote.output_mint)))[0]
            side = hop.pool.mints.index(hop.sold)
            paid, paying = hop.pool.reserves[side], hop.pool.reserves[1 - side]
            out = swap_output(quote.in_amount, paid, paying, fee=hop.pool.fee)
            return Quote(
                quote.input_mint,
                quote.output_mint,
                quote.in_amount,
                out,
                -(-out * 9_950 // 10_000),
                50,
                Decimal(0),
            )

        swaps.plugin.build, swaps.plugin.requote = build, requote
        record = await swaps.swap("SOL", "USDC", 1)
        expected = swap_output(SOL, 10**14, 15 * 10**12, fee=2_500)
        assert record.details["outputAmount"] == whole(expected, 6)
        assert await swaps.units(USDC_MINT) == expected
        before = await swaps.lamports()
        record = await swaps.swap("USDC", "SOL", 50)
        assert await swaps.lamports() - before > 33 * SOL // 100
        await nothing_is_left(swaps)
