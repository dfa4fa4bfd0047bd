"""A bare VM with token accounts made by the real programs, for the tests of the encodings."""

import struct
from collections.abc import Sequence

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
    get_associated_token_address,
    initialize_mint2,
    mint_to,
)
from spl.token.models import InitializeMint2Params, MintToParams

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
