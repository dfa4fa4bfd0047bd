"""A bare LiteSVM for tests of programs: accounts put in place, one transaction, what it did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM
from solders.token.state import Mint, TokenAccount, TokenAccountState
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata

RENT = 2_039_280
SOL = 1_000_000_000
WSOL = Pubkey.from_string("So11111111111111111111111111111111111111112")

Outcome = TransactionMetadata | FailedTransactionMetadata


class Machine:
    """A virtual machine of its own, with every feature the engine has by default."""

    def __init__(self) -> None:
        self.svm = LiteSVM()

    def wallet(self, lamports: int = 10 * SOL) -> Keypair:
        """A new key with lamports."""
        key = Keypair()
        self.put(key.pubkey(), Account(lamports, b"", Pubkey.default()))
        return key

    def put(self, address: Pubkey, account: Account) -> None:
        self.svm.set_account(address, account)

    def program(self, file: bytes) -> Pubkey:
        """A program under a new address."""
        address = Keypair().pubkey()
        self.svm.add_program(address, file)
        return address

    def mint(self, decimals: int = 6, supply: int = 2**63) -> Pubkey:
        address = Keypair().pubkey()
        state = Mint(
            mint_authority=None,
            supply=supply,
            decimals=decimals,
            is_initialized=True,
            freeze_authority=None,
        )
        self.put(address, Account(1_461_600, bytes(state), TOKEN_PROGRAM))
        return address

    def tokens(
        self, mint: Pubkey, owner: Pubkey, units: int = 0, address: Pubkey | None = None
    ) -> Pubkey:
        """A token account of `mint`, native for wrapped SOL."""
        where = address or Keypair().pubkey()
        native = RENT if mint == WSOL else None
        state = TokenAccount(
            mint=mint,
            owner=owner,
            amount=units,
            delegate=None,
            state=TokenAccountState.Initialized,
            is_native=native,
            delegated_amount=0,
            close_authority=None,
        )
        lamports = RENT + units if native else RENT
        self.put(where, Account(lamports, bytes(state), TOKEN_PROGRAM))
        return where

    def units(self, account: Pubkey) -> int:
        held = self.svm.get_account(account)
        assert held is not None
        return int(TokenAccount.from_bytes(held.data).amount)

    def lamports(self, address: Pubkey) -> int:
        return self.svm.get_balance(address) or 0

    def send(
        self,
        instructions: Sequence[Instruction],
        payer: Keypair,
        *signers: Keypair,
        tables: Iterable[AddressLookupTableAccount] = (),
    ) -> Outcome:
        """Execute on a blockhash of its own, so that equal transactions all land."""
        self.svm.expire_blockhash()
        message = MessageV0.try_compile(
            payer.pubkey(), list(instructions), list(tables), self.svm.latest_blockhash()
        )
        return self.svm.send_transaction(VersionedTransaction(message, [payer, *signers]))


def succeeded(outcome: Outcome) -> TransactionMetadata:
    assert isinstance(outcome, TransactionMetadata), outcome
    return outcome


def error_of(outcome: Outcome) -> str:
    """What a transaction that failed failed with."""
    assert isinstance(outcome, FailedTransactionMetadata), outcome
    return str(outcome.err())
