"""Token operations on a real engine and VM: mints of any kind, made by somebody else."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.transaction import VersionedTransaction
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    initialize_account3,
    initialize_mint2,
    mint_to,
)
from spl.token.models import InitializeAccount3Params, InitializeMint2Params, MintToParams
from tests.support.engine_harness import Bench, open_bench
from tests.support.localnet_wire import TOKEN, TOKEN_2022

from solward.operations.perform import Operations
from solward.solana.tokens import Mint, read_mint
from solward.types.errors import InvalidRequest

SOL = 1_000_000_000
FEE = 5_000
RENT = 2_039_280
RENT_2022 = 2_074_080
PROGRAMS = (TOKEN, TOKEN_2022)


@dataclass
class TokenBench:
    """An engine's bench, and a stranger who makes mints and pays for them."""

    bench: Bench
    stranger: Keypair

    @property
    def wallet(self) -> str:
        return self.bench.wallet.id

    @property
    def address(self) -> str:
        return self.bench.wallet.address

    @property
    def owner(self) -> Pubkey:
        return Pubkey.from_string(self.address)

    @property
    def operations(self) -> Operations:
        return self.bench.operations()

    async def mint(
        self,
        program: Pubkey = TOKEN,
        *,
        units: int = 0,
        ours: bool = True,
        decimals: int = 6,
        space: int = 82,
        extensions: Sequence[bytes] = (),
    ) -> str:
        """A mint of the wallet's (or of the stranger's); the wallet holds `units` of it.

        Args:
            space: bytes of a Token-2022 mint with `extensions`.
            extensions: the data of the instructions that come before the mint is initialised.
        """
        mint, payer = Keypair(), self.stranger.pubkey()
        at = mint.pubkey()
        create = create_account(
            CreateAccountParams(
                from_pubkey=payer, to_pubkey=at, lamports=10_000_000, space=space, owner=program
            )
        )
        asked = [Instruction(program, data, [AccountMeta(at, False, True)]) for data in extensions]
        initialize = initialize_mint2(
            InitializeMint2Params(
                decimals=decimals,
                program_id=program,
                mint=at,
                mint_authority=payer,
                freeze_authority=self.owner if ours else payer,
            )
        )
        await self.land([create, *asked, initialize], mint)
        if units:
            await self.fund(str(at), units, program)
        if ours:
            # SetAuthority of the mint's own authority, to the wallet.
            data = b"\x06\x00\x01" + bytes(self.owner)
            accounts = [AccountMeta(at, False, True), AccountMeta(payer, True, False)]
            await self.land([Instruction(program, data, accounts)])
        return str(at)

    async def fund(
        self, mint: str, units: int, program: Pubkey = TOKEN, account: str | None = None
    ) -> None:
        """The stranger, who must still be the mint authority, mints to the wallet's associated
        account, or to `account`."""
        at, payer = Pubkey.from_string(mint), self.stranger.pubkey()
        dest = Pubkey.from_string(account or self.account(mint, program))
        to = mint_to(
            MintToParams(
                program_id=program, mint=at, dest=dest,
                mint_authority=payer, amount=units,
            )
        )  # fmt: skip
        opening = create_idempotent_associated_token_account(payer, self.owner, at, program)
        await self.land([opening, to] if units else [opening])

    async def land(self, instructions: Sequence[Instruction], *signers: Keypair) -> None:
        """Put a transaction of the stranger's on the ledger."""
        latest = await self.bench.ledger.latest_blockhash()
        message = MessageV0.try_compile(
            self.stranger.pubkey(), list(instructions), [], Hash.from_string(latest.blockhash)
        )
        signed = VersionedTransaction(message, [self.stranger, *signers])
        options = {"encoding": "base64", "preflightCommitment": "processed"}
        wire = base64.b64encode(bytes(signed)).decode()
        await self.bench.wire.direct("sendTransaction", [wire, options])

    def account(self, mint: str, program: Pubkey = TOKEN) -> str:
        """The wallet's associated account."""
        return str(get_associated_token_address(self.owner, Pubkey.from_string(mint), program))

    async def read(self, mint: str) -> Mint:
        return await read_mint(self.bench.ledger, mint)

    async def units(self, mint: str) -> int:
        """All the wallet holds of a mint."""
        held = await self.bench.ledger.holdings(self.address)
        return sum(holding.units for holding in held if holding.mint == mint)

    async def another_account(self, mint: str, owner: str | None = None) -> str:
        """A token account of an SPL Token mint that is not the associated one; the wallet's without
        an owner."""
        made, payer = Keypair(), self.stranger.pubkey()
        create = create_account(
            CreateAccountParams(
                from_pubkey=payer, to_pubkey=made.pubkey(), lamports=RENT, space=165, owner=TOKEN
            )
        )
        initialize = initialize_account3(
            InitializeAccount3Params(
                program_id=TOKEN,
                account=made.pubkey(),
                mint=Pubkey.from_string(mint),
                owner=Pubkey.from_string(owner or self.address),
            )
        )
        await self.land([create, initialize], made)
        return str(made.pubkey())

    async def accounts(self, mint: str, owner: str | None = None) -> dict[str, int]:
        """Token account -> the units it holds of a mint; the wallet's without an owner."""
        found = await self.bench.ledger.holdings(owner or self.address)
        return {each.account: each.units for each in found if each.mint == mint}

    async def refuses(self, call: Awaitable[Any], text: str) -> None:
        """It is bad input: raised before anything is stored, reserved or paid."""

        async def state() -> Any:
            spent = await self.bench.reserved_units()
            return await self.bench.history(), spent, self.sent(), await self.lamports()

        before = await state()
        with pytest.raises(InvalidRequest, match=text):
            await call
        assert await state() == before

    async def lamports(self) -> int:
        return await self.bench.lamports(self.address)

    def sent(self) -> int:
        """How many transactions of anybody reached the ledger through the engine."""
        return self.bench.wire.calls["sendTransaction"]


@asynccontextmanager
async def open_tokens(tmp_path: Path, **options: Any) -> AsyncIterator[TokenBench]:
    async with open_bench(tmp_path, **options) as bench:
        stranger = Keypair()
        await bench.wire.direct("requestAirdrop", [str(stranger.pubkey()), 10 * SOL])
        yield TokenBench(bench, stranger)


@pytest.fixture
async def tokens(tmp_path: Path) -> AsyncIterator[TokenBench]:
    async with open_tokens(tmp_path) as opened:
        yield opened
