"""A venue that steals by what it answers over HTTP: the wallet's money stays, all but a fee."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV1
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountWithSeedParams, create_account_with_seed
from solders.sysvar import RENT as RENT_SYSVAR
from solders.token import ID as TOKEN_PROGRAM
from spl.token.constants import WRAPPED_SOL_MINT as WSOL
from spl.token.instructions import create_idempotent_associated_token_account
from tests.operations.test_pocket_swap import wire_of_last
from tests.promises import promise
from tests.support.engine import Trap, front_run, put_accounts, thief
from tests.support.localnet import rent
from tests.support.programs import (
    hostile_accounts,
    name_owner,
    name_victim,
    take_lamports,
    take_tokens,
    takes_tokens_of,
)
from tests.support.swaps import (
    BONK,
    BONK_POOL,
    FEE,
    MAKER,
    SOL,
    USDC_POOL,
    SwapBench,
    ata,
    market_and_makers,
    open_swaps,
    pay,
    pay_sol,
)
from tests.swap_api import venue_app

from solward.solana.programs import STAKE_PROGRAM
from solward.solana.stakes import STAKE_ACCOUNT_BYTES
from solward.types.errors import TransactionFailed
from solward.types.venue import Quote
from solward.vault.guardrails.rules import ScopeLimits
from solward_localnet.market import MARKET_PROGRAM, program_account

LIMITS = ScopeLimits(max_lamports_per_tx=2 * SOL, daily_lamports=10 * SOL, daily_tokens={BONK: 1})
STAKE_RENT = rent(200)

Body = dict[str, Any]


class HostileServer(httpx.AsyncBaseTransport):
    """The market's answers, the swap's own with its instruction replaced."""

    def __init__(self, market: httpx.AsyncBaseTransport) -> None:
        self._market = market
        self.steal: Callable[[Pubkey], Instruction] | None = None
        self.tables: Mapping[str, Sequence[str]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._market.handle_async_request(request)
        asked = request.url.params
        if self.steal is None or "destinationTokenAccount" not in asked:
            return answer
        await answer.aread()
        body = answer.json()
        stolen = self.steal(Pubkey.from_string(asked["taker"]))
        body["swapInstruction"] = in_words(stolen)
        body["addressesByLookupTableAddress"] = dict(self.tables)
        return httpx.Response(200, json=body)


def in_words(instruction: Instruction) -> Body:
    return {
        "programId": str(instruction.program_id),
        "accounts": [
            {
                "pubkey": str(meta.pubkey),
                "isSigner": meta.is_signer,
                "isWritable": meta.is_writable,
            }
            for meta in instruction.accounts
        ],
        "data": base64.b64encode(instruction.data).decode(),
    }


@dataclass
class Robbery:
    """A wallet with 48 SOL and BONK that is not to be sold, a thief, and their server."""

    swaps: SwapBench
    server: HostileServer
    thief: Keypair
    held: int

    @property
    def wallet(self) -> Pubkey:
        return self.swaps.user

    @property
    def robber(self) -> Pubkey:
        return self.thief.pubkey()

    async def took(self) -> tuple[int, int, int]:
        """What the thief has: lamports beyond its own, wrapped SOL, BONK."""
        swaps, robber = self.swaps, self.robber
        lamports = await swaps.bench.lamports(str(robber))
        bonk = await swaps.units(BONK_POOL.mint, robber)
        return lamports, await swaps.units(WSOL, robber), bonk


def hostile_genesis() -> Mapping[Pubkey, Account]:
    return {**market_and_makers(), **hostile_accounts()}


@asynccontextmanager
async def open_robbery(tmp_path: Path) -> AsyncIterator[Robbery]:
    """The real plugin speaks HTTP to the thief's server."""
    options: dict[str, Any] = {"limits": LIMITS, "genesis": hostile_genesis}
    async with open_swaps(tmp_path, sol=50, **options) as swaps:
        server = HostileServer(httpx.ASGITransport(venue_app(swaps.bench.localnet.call)))
        async with httpx.AsyncClient(transport=server, base_url="http://thief") as swaps.http:
            await swaps.swap("SOL", "BONK", 1)
            robber = await thief(swaps.bench)
            own = [
                create_idempotent_associated_token_account(robber.pubkey(), robber.pubkey(), mint)
                for mint in (WSOL, BONK_POOL.mint)
            ]
            await swaps.bench.land(own, robber)
            yield Robbery(swaps, server, robber, await swaps.units(BONK_POOL.mint))


def unrelated_tokens(robbery: Robbery, _taker: Pubkey) -> Instruction:
    return pay(BONK_POOL.mint, 5, robbery.wallet, robbery.robber, robbery.held)


def program_with_the_wallets_key(robbery: Robbery, _taker: Pubkey) -> Instruction:
    return take_lamports(robbery.wallet, robbery.robber)


def program_with_the_wallets_key_unsigned(robbery: Robbery, _taker: Pubkey) -> Instruction:
    return take_lamports(robbery.wallet, robbery.robber, signs=False)


def program_that_names_the_wallet(robbery: Robbery, _taker: Pubkey) -> Instruction:
    return name_victim(robbery.wallet, robbery.robber, 48 * SOL)


def program_that_names_the_tokens_owner(robbery: Robbery, _taker: Pubkey) -> Instruction:
    bonk = BONK_POOL.mint
    return name_owner(robbery.wallet, ata(robbery.wallet, bonk), ata(robbery.robber, bonk))


def wallets_tokens_by_the_pocket(robbery: Robbery, taker: Pubkey) -> Instruction:
    bonk = BONK_POOL.mint
    return take_tokens(taker, ata(robbery.wallet, bonk), ata(robbery.robber, bonk))


def everything_of_the_pocket(robbery: Robbery, taker: Pubkey) -> Instruction:
    return take_tokens(taker, ata(taker, WSOL), ata(robbery.robber, WSOL))


NAMED = "The venue's swap instruction names the wallet"
FAILS = "The transaction would fail"


@promise("venue-gets-no-signature")
@pytest.mark.parametrize(
    ("theft", "text"),
    [
        (unrelated_tokens, NAMED),
        (program_with_the_wallets_key, NAMED),
        (program_with_the_wallets_key_unsigned, NAMED),
        (program_that_names_the_wallet, FAILS),
        (program_that_names_the_tokens_owner, FAILS),
        (wallets_tokens_by_the_pocket, FAILS),
        (everything_of_the_pocket, FAILS),
    ],
)
async def test_a_theft_in_place_of_a_swap_gets_nothing(
    tmp_path: Path, theft: Callable[[Robbery, Pubkey], Instruction], text: str
) -> None:
    async with open_robbery(tmp_path) as robbery:
        swaps = robbery.swaps
        robbery.server.steal = lambda taker: theft(robbery, taker)
        before = await swaps.lamports(), await robbery.took(), await swaps.sent()
        counted = await swaps.bench.reserved_units()
        with pytest.raises(TransactionFailed, match=text):
            await swaps.swap("SOL", "USDC", 1)
        assert (await swaps.lamports(), await robbery.took(), await swaps.sent()) == before
        assert before[0] > 48 * SOL
        assert await swaps.units(BONK_POOL.mint) == robbery.held
        assert await swaps.bench.reserved_units() == counted


@promise("venue-gets-no-signature")
async def test_an_unrelated_token_cannot_go_into_an_account_that_changes_hands(
    tmp_path: Path,
) -> None:
    """It is the wallet's own when it is looked at: only that the key is named tells it."""
    async with open_robbery(tmp_path) as robbery:
        swaps = robbery.swaps
        trap = Trap.of(swaps.bench, robbery.thief, BONK_POOL.mint)
        await trap.set()

        def steal(_taker: Pubkey) -> Instruction:
            own = ata(robbery.wallet, BONK_POOL.mint)
            theft = pay(BONK_POOL.mint, 5, robbery.wallet, robbery.robber, robbery.held)
            accounts = list(theft.accounts)
            assert accounts[0].pubkey == own
            accounts[2] = type(accounts[2])(trap.address, False, True)
            return Instruction(TOKEN_PROGRAM, theft.data, accounts)

        robbery.server.steal = steal
        sent = await swaps.sent()
        with pytest.raises(TransactionFailed, match=NAMED):
            await swaps.swap("SOL", "USDC", 1)
        assert await swaps.sent() == sent
        assert await swaps.units(BONK_POOL.mint) == robbery.held


@promise("swap-minimum-asserted", "swap-in-version-1")
@pytest.mark.parametrize("sold", ["SOL", "USDC"])
async def test_a_program_that_steals_only_when_it_lands_gets_the_fee_burnt_at_most(
    tmp_path: Path, sold: str
) -> None:
    """The market itself, upgraded to take what it is given and to pay nothing."""
    async with open_robbery(tmp_path) as robbery:
        swaps = robbery.swaps
        await swaps.swap("SOL", "USDC", 1)
        bought, amount = ("USDC", 1) if sold == "SOL" else ("SOL", 100)
        # As the swap's accounts stand: token program, who signs, source, ..., the vault.
        file = takes_tokens_of(program=0, authority=1, source=2, thief=6).file()

        async def upgrade() -> None:
            await put_accounts(swaps.bench, {MARKET_PROGRAM: program_account(file)})

        before, counted = await swaps.lamports(), await swaps.bench.reserved_units()
        units = await swaps.units(USDC_POOL.mint)
        async with front_run(swaps.bench, upgrade):
            with pytest.raises(TransactionFailed, match=r"failed on the ledger: .*Custom 1"):
                await swaps.swap(sold, bought, amount)
        assert isinstance((await wire_of_last(swaps)).message, MessageV1)
        assert await swaps.lamports() == before - FEE
        assert await swaps.units(USDC_POOL.mint) == units
        assert await swaps.bench.reserved_units() == counted


@promise("venue-gets-no-signature")
async def test_a_minimum_is_not_met_by_a_stake_that_the_venue_may_withdraw(
    tmp_path: Path,
) -> None:
    """The pool delivers what was promised, into a stake account that only names the wallet."""
    async with open_swaps(tmp_path) as swaps:
        await swaps.swap("SOL", "USDC", 1)
        maker = MAKER.pubkey()
        stake = Pubkey.create_with_seed(maker, "delivery", Pubkey.from_string(STAKE_PROGRAM))

        opening = create_account_with_seed(
            CreateAccountWithSeedParams(
                from_pubkey=maker,
                to_pubkey=stake,
                base=maker,
                seed="delivery",
                lamports=STAKE_RENT,
                space=STAKE_ACCOUNT_BYTES,
                owner=Pubkey.from_string(STAKE_PROGRAM),
            )
        )
        naming = _initialize_stake(stake, staker=swaps.user, withdrawer=maker)
        await swaps.bench.land([opening, naming], MAKER)

        def deliver(quote: Quote, taker: Pubkey) -> Sequence[Instruction]:
            return [
                pay(USDC_POOL.mint, 6, taker, maker, quote.in_amount),
                pay_sol(maker, stake, quote.out_amount),
            ]

        swaps.answer(deliver)
        before, units = await swaps.lamports(), await swaps.units(USDC_POOL.mint)
        with pytest.raises(TransactionFailed, match="The call would bring"):
            await swaps.swap("USDC", "SOL", 100)
        # Funding and sweep were paid, and everything is home.
        assert await swaps.lamports() == before - 15_000
        assert await swaps.units(USDC_POOL.mint) == units
        assert await swaps.bench.lamports(str(stake)) == STAKE_RENT


def _initialize_stake(stake: Pubkey, staker: Pubkey, withdrawer: Pubkey) -> Instruction:
    data = bytes(4) + bytes(staker) + bytes(withdrawer) + bytes(8 + 8 + 32)
    accounts = [AccountMeta(stake, False, True), AccountMeta(RENT_SYSVAR, False, False)]
    return Instruction(Pubkey.from_string(STAKE_PROGRAM), data, accounts)
