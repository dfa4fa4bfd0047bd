"""Swaps on a real engine, market and plugin, and venues that answer with bytes of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.account import Account
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, MessageV1, TransactionConfig, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.constants import WRAPPED_SOL_MINT as WSOL
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    sync_native,
    transfer_checked,
)
from spl.token.models import CloseAccountParams, SyncNativeParams, TransferCheckedParams
from tests.support.engine import Bench, open_bench
from tests.support.localnet import rent
from tests.support.plugins import built_ins
from tests.support.programs import token_account
from tests.swap_api import venue_app

from solward.operations.perform import Operations
from solward.operations.venues import Venue
from solward.plugins import load_registry
from solward.plugins.loaded import LoadedVenue
from solward.solana.tokens import token_account as state_of
from solward.types.ledger import ReadOnlyLedger
from solward.types.record import TransactionRecord
from solward.types.venue import (
    Quote,
    QuoteRequest,
    SwapInstructions,
    SwapTransaction,
    VenueContext,
    VenueSpec,
)
from solward.vault.money.request import ADMIN, Actor
from solward_localnet.market import POOLS, genesis_accounts

USDC_POOL, BONK_POOL = POOLS
USDC, BONK = str(USDC_POOL.mint), str(BONK_POOL.mint)
# Who signs the other side of whole transactions; funded by `open_swaps`.
MAKER, BONK_MAKER = Keypair(), Keypair()
SOL = 1_000_000_000
# The wallet's signature and the pool's.
FEE = 10_000
RENT = rent(165)

Build = Callable[[Quote, str], Awaitable[bytes]]


@dataclass
class Rogue:
    """The real plugin, but for what a test replaces: the quote's fields, its instructions, or
    whole bytes in their place."""

    real: LoadedVenue
    requote: Callable[[Quote], Quote] = lambda quote: quote
    build: Build | None = None
    remake: Callable[[SwapInstructions, str, str], Awaitable[SwapInstructions]] | None = None
    wallets: list[str] = field(default_factory=list)
    takers: list[str] = field(default_factory=list)
    asked_accounts: list[int | None] = field(default_factory=list)

    @property
    def spec(self) -> VenueSpec:
        return self.real.spec

    async def quote(self, request: QuoteRequest, context: VenueContext) -> Quote:
        return self.requote(await self.real.quote(request, context))

    @property
    def gives_instructions(self) -> bool:
        return self.real.gives_instructions and self.build is None

    @property
    def gives_transactions(self) -> bool:
        return self.real.gives_transactions or self.build is not None

    async def instructions(
        self,
        quote: Quote,
        taker: str,
        destination: str,
        context: VenueContext,
        max_accounts: int | None = None,
    ) -> SwapInstructions:
        self.takers.append(taker)
        self.asked_accounts.append(max_accounts)
        made = await self.real.instructions(quote, taker, destination, context, max_accounts)
        return made if self.remake is None else await self.remake(made, taker, destination)

    async def swap(self, quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
        self.wallets.append(wallet)
        if self.build is None:
            return await self.real.swap(quote, wallet, context)
        return SwapTransaction(await self.build(quote, wallet), 1)


@dataclass
class SwapBench:
    """An engine's bench with the demo market and a venue."""

    bench: Bench
    http: httpx.AsyncClient
    plugin: Rogue
    # As JUPITER_API.
    api: str = "build"

    @property
    def address(self) -> str:
        return self.bench.wallet.address

    @property
    def user(self) -> Pubkey:
        return Pubkey.from_string(self.address)

    @property
    def venue(self) -> Venue:
        ledger = ReadOnlyLedger(self.bench.ledger, lambda: None)
        options = {"JUPITER_API": self.api}
        return Venue(self.plugin, VenueContext(self.http, ledger=ledger, options=options))

    def operations(self) -> Operations:
        return self.bench.operations(venues=[self.venue])

    async def swap(
        self,
        input_token: Any,
        output_token: Any,
        amount: Any,
        slippage_bps: Any = 50,
        actor: Actor = ADMIN,
    ) -> TransactionRecord:
        return await self.operations().perform(
            "swap",
            self.bench.wallet.id,
            actor,
            {
                "inputToken": input_token,
                "outputToken": output_token,
                "amount": amount,
                "slippageBps": slippage_bps,
            },
        )

    async def lamports(self) -> int:
        return await self.bench.lamports(self.address)

    async def units(self, mint: Pubkey, owner: Pubkey | None = None) -> int:
        """Units of `mint` the wallet's (or `owner`'s) associated account holds, 0 without one."""
        account = await self.bench.ledger.account(str(ata(owner or self.user, mint)))
        return int.from_bytes(account.data[64:72], "little") if account else 0

    async def held(self, account: Pubkey) -> int:
        """Units a token account holds, 0 without one."""
        state = state_of(await self.bench.ledger.account(str(account)))
        return 0 if state is None else state.amount

    async def sent(self) -> int:
        """How many transactions reached the ledger by the engine."""
        return self.bench.wire.calls["sendTransaction"]

    async def wire(
        self,
        instructions: Sequence[Instruction],
        *signers: Keypair,
        payer: Pubkey | None = None,
        blockhash: Hash | None = None,
        config: TransactionConfig | None = None,
    ) -> bytes:
        """A transaction signed by `signers` alone, with a `config` one of version 1."""
        latest = (await self.bench.ledger.latest_blockhash()).blockhash
        message = whole_message(
            payer or self.user, instructions, blockhash or Hash.from_string(latest), config
        )
        keys = {signer.pubkey(): signer for signer in signers}
        covered = bytes(to_bytes_versioned(message))
        needed = message.account_keys[: message.header.num_required_signatures]
        signatures = [
            keys[key].sign_message(covered) if key in keys else Signature.default()
            for key in needed
        ]
        return bytes(VersionedTransaction.populate(message, signatures))

    def answer(
        self,
        instructions: Callable[[Quote, Pubkey], Sequence[Instruction]],
        *signers: Keypair,
        config: TransactionConfig | None = None,
    ) -> None:
        """Have the venue answer with whole transactions of these instructions for a taker, signed
        by the pool and `signers`."""

        async def build(quote: Quote, taker: str) -> bytes:
            user = Pubkey.from_string(taker)
            made = instructions(quote, user)
            return await self.wire(made, MAKER, *signers, payer=user, config=config)

        self.plugin.build = build

    def honest(self, quote: Quote, user: Pubkey, *, given: int = 0) -> list[Instruction]:
        """SOL for USDC as quoted; `given` is added to what the user gets."""
        return [
            create_idempotent_associated_token_account(user, user, USDC_POOL.mint),
            pay_sol(user, MAKER.pubkey(), quote.in_amount),
            pay(USDC_POOL.mint, 6, MAKER.pubkey(), user, quote.out_amount + given),
        ]


def whole_message(
    payer: Pubkey,
    instructions: Sequence[Instruction],
    blockhash: Hash,
    config: TransactionConfig | None = None,
) -> MessageV0 | MessageV1:
    """Of version 0, with a `config` of version 1."""
    if config is None:
        return MessageV0.try_compile(payer, list(instructions), [], blockhash)
    return MessageV1.try_compile(payer, list(instructions), blockhash, config)


def ata(owner: Pubkey, mint: Pubkey) -> Pubkey:
    return get_associated_token_address(owner, mint)


def pay_sol(source: Pubkey, target: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=source, to_pubkey=target, lamports=lamports))


def pay(mint: Pubkey, decimals: int, source: Pubkey, target: Pubkey, units: int) -> Instruction:
    """Tokens from one owner's associated account to another's."""
    return transfer_checked(
        TransferCheckedParams(
            program_id=TOKEN_PROGRAM_ID,
            source=ata(source, mint),
            mint=mint,
            dest=ata(target, mint),
            owner=source,
            amount=units,
            decimals=decimals,
        )
    )


def wrap(owner: Pubkey, lamports: int) -> list[Instruction]:
    """Wrap an owner's SOL in its associated account, opened where there is none."""
    return [
        create_idempotent_associated_token_account(owner, owner, WSOL),
        pay_sol(owner, ata(owner, WSOL), lamports),
        sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=ata(owner, WSOL))),
    ]


def close(owner: Pubkey, mint: Pubkey, to: Pubkey) -> Instruction:
    return close_account(
        CloseAccountParams(
            program_id=TOKEN_PROGRAM_ID, account=ata(owner, mint), dest=to, owner=owner
        )
    )


def market_and_makers() -> Mapping[Pubkey, Account]:
    """The demo market, and makers who hold as much again."""
    genesis = genesis_accounts()
    accounts = dict(genesis)
    for maker, pool in ((MAKER, USDC_POOL), (BONK_MAKER, BONK_POOL)):
        owner = maker.pubkey()
        mint = genesis[pool.mint]
        supply = (2 * pool.units).to_bytes(8, "little")
        data = mint.data[:36] + supply + mint.data[44:]
        accounts[pool.mint] = Account(mint.lamports, data, mint.owner)
        accounts[owner] = Account(pool.sol, b"", SYSTEM_PROGRAM)
        accounts[ata(owner, pool.mint)] = token_account(pool.mint, owner, pool.units)
    return accounts


@asynccontextmanager
async def open_swaps(tmp_path: Path, *, sol: int = 10, **options: Any) -> AsyncIterator[SwapBench]:
    opened = {"genesis": market_and_makers, **options}
    async with open_bench(tmp_path, sol=sol, **opened) as bench:
        real = load_registry(entry_points=built_ins("jupiter")).venues["jupiter"]
        transport = httpx.ASGITransport(venue_app(bench.localnet.call))
        async with httpx.AsyncClient(transport=transport, base_url="http://venue") as http:
            yield SwapBench(bench, http, Rogue(real))


def whole(units: int, decimals: int) -> Decimal:
    return Decimal(units).scaleb(-decimals)


@pytest.fixture
async def swaps(tmp_path: Path) -> AsyncIterator[SwapBench]:
    async with open_swaps(tmp_path) as opened:
        yield opened
