"""A bare VM with token accounts made by the real programs, for the tests of the encodings."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import TransactionMetadata
from spl.token.instructions import (
    create_associated_token_account,
    create_idempotent_associated_token_account,
    get_associated_token_address,
    initialize_account3,
    initialize_mint2,
    mint_to,
)
from spl.token.models import InitializeAccount3Params, InitializeMint2Params, MintToParams
from tests.support.engine import Bench, open_bench
from tests.support.localnet import rent

from solward.operations.perform import Operations
from solward.solana.tokens import Mint, read_mint
from solward.types.errors import InvalidRequest

# A bare VM with token accounts made by the real programs, for the tests of the encodings.

TOKEN = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022 = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")

METADATA_POINTER_INITIALIZE = b"\x27\x00"
METADATA_INITIALIZE = bytes((210, 225, 30, 162, 88, 184, 77, 141))
_MINT_WITH_POINTER_BYTES = 166 + 4 + 64


def mint_instructions(
    payer: Pubkey, mint: Pubkey, lamports: int, *, program: Pubkey = TOKEN, decimals: int = 6
) -> list[Instruction]:
    """What creates a mint whose both authorities are `payer`."""
    create = create_account(
        CreateAccountParams(
            from_pubkey=payer, to_pubkey=mint, lamports=lamports, space=82, owner=program
        )
    )
    initialize = initialize_mint2(
        InitializeMint2Params(
            decimals=decimals,
            program_id=program,
            mint=mint,
            mint_authority=payer,
            freeze_authority=payer,
        )
    )
    return [create, initialize]


def fund_instructions(
    payer: Pubkey, owner: Pubkey, mint: Pubkey, amount: int, *, program: Pubkey = TOKEN
) -> list[Instruction]:
    """What creates the associated account of `owner` and mints `amount` base units to it."""
    account = get_associated_token_address(owner, mint, program)
    return [
        create_associated_token_account(payer, owner, mint, program),
        mint_to(
            MintToParams(
                program_id=program, mint=mint, dest=account, mint_authority=payer, amount=amount
            )
        ),
    ]


def named_mint_instructions(
    payer: Pubkey, mint: Pubkey, lamports: int, name: str, symbol: str
) -> list[Instruction]:
    """What creates a Token-2022 mint that holds its own metadata, as `launch_token` does."""
    create = create_account(
        CreateAccountParams(
            from_pubkey=payer,
            to_pubkey=mint,
            lamports=lamports,
            space=_MINT_WITH_POINTER_BYTES,
            owner=TOKEN_2022,
        )
    )
    pointer = Instruction(
        TOKEN_2022,
        METADATA_POINTER_INITIALIZE + bytes(payer) + bytes(mint),
        [AccountMeta(mint, is_signer=False, is_writable=True)],
    )
    encoded = (name.encode(), symbol.encode(), b"")
    texts = b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    metadata = Instruction(
        TOKEN_2022,
        METADATA_INITIALIZE + texts,
        [
            AccountMeta(mint, is_signer=False, is_writable=True),
            AccountMeta(payer, is_signer=False, is_writable=False),
            AccountMeta(mint, is_signer=False, is_writable=False),
            AccountMeta(payer, is_signer=True, is_writable=False),
        ],
    )
    initialize = mint_instructions(payer, mint, lamports, program=TOKEN_2022, decimals=9)[1]
    return [create, pointer, initialize, metadata]


class Bank:
    """A bare LiteSVM with one rich payer."""

    def __init__(self) -> None:
        self.svm = LiteSVM()
        self.payer = Keypair()
        self.svm.airdrop(self.payer.pubkey(), 100_000_000_000)

    def run(
        self, instructions: Sequence[Instruction], *signers: Keypair
    ) -> tuple[VersionedTransaction, TransactionMetadata]:
        """Execute a transaction that must succeed."""
        message = MessageV0.try_compile(
            self.payer.pubkey(), list(instructions), [], self.svm.latest_blockhash()
        )
        transaction = VersionedTransaction(message, [self.payer, *signers])
        result = self.svm.send_transaction(transaction)
        assert isinstance(result, TransactionMetadata), result
        return transaction, result

    def mint(self, *, program: Pubkey = TOKEN, decimals: int = 6) -> Pubkey:
        """A new mint of the payer's."""
        mint = Keypair()
        instructions = mint_instructions(
            self.payer.pubkey(), mint.pubkey(), 10_000_000, program=program, decimals=decimals
        )
        self.run(instructions, mint)
        return mint.pubkey()

    def token_account(
        self, owner: Pubkey, mint: Pubkey, amount: int, *, program: Pubkey = TOKEN
    ) -> Pubkey:
        """The associated account of `owner`, holding `amount`."""
        self.run(fund_instructions(self.payer.pubkey(), owner, mint, amount, program=program))
        return get_associated_token_address(owner, mint, program)


# Token operations on a real engine and VM: mints of any kind, made by somebody else.

SOL = 1_000_000_000
FEE = 5_000
RENT = rent(165)
RENT_2022 = rent(170)
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
        await self.bench.land(instructions, self.stranger, *signers)

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
