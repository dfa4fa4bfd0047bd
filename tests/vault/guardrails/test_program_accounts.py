"""What the engine lets a program do with a signature: only with keys it was given.

The bound on every transaction rests on it, so these hold at each upgrade of the virtual machine.
The programs do steal where they are given the key: what is refused here is not theirs to fail at.
"""

from __future__ import annotations

import struct

import pytest
from solders.account import Account
from solders.address_lookup_table_account import ID as LOOKUP_TABLES
from solders.instruction import CompiledInstruction
from solders.keypair import Keypair
from solders.message import MessageAddressTableLookup, MessageHeader, MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from tests.promises import promise
from tests.support.programs import (
    SOL,
    TAKES_LAMPORTS,
    Machine,
    error_of,
    hostile_accounts,
    name_owner,
    name_victim,
    succeeded,
    take_lamports,
    take_tokens,
)

FEE = 5_000


@pytest.fixture
def machine() -> Machine:
    made = Machine()
    for address, account in hostile_accounts().items():
        made.put(address, account)
    return made


def test_a_program_given_the_wallets_key_takes_every_lamport(machine: Machine) -> None:
    wallet, thief = machine.wallet(10 * SOL), Keypair().pubkey()
    succeeded(machine.send([take_lamports(wallet.pubkey(), thief)], wallet))
    assert machine.lamports(wallet.pubkey()) == 0
    assert machine.lamports(thief) == 10 * SOL - FEE


def test_a_program_given_the_wallets_key_takes_every_token(machine: Machine) -> None:
    wallet, mint = machine.wallet(), machine.mint()
    source = machine.tokens(mint, wallet.pubkey(), 900_000_000)
    thief = machine.tokens(mint, Keypair().pubkey())
    succeeded(machine.send([take_tokens(wallet.pubkey(), source, thief)], wallet))
    assert (machine.units(source), machine.units(thief)) == (0, 900_000_000)


def test_a_key_without_its_signature_is_worth_nothing(machine: Machine) -> None:
    payer, wallet, mint = machine.wallet(), machine.wallet(), machine.mint()
    source = machine.tokens(mint, wallet.pubkey(), 7)
    thief = machine.tokens(mint, payer.pubkey())
    lamports = take_lamports(wallet.pubkey(), payer.pubkey(), signs=False)
    tokens = take_tokens(wallet.pubkey(), source, thief, signs=False)
    for attack in (lamports, tokens):
        assert "PrivilegeEscalation" in error_of(machine.send([attack], payer))


@promise("unlisted-wallet-gives-nothing", "undecoded-gets-no-key")
def test_a_program_that_names_the_wallet_by_itself_finds_no_such_account(
    machine: Machine,
) -> None:
    wallet, thief = machine.wallet(10 * SOL), machine.wallet(SOL).pubkey()
    # The wallet signed and pays; only the instruction does not list it.
    outcome = machine.send([name_victim(wallet.pubkey(), thief, SOL)], wallet)
    assert "MissingAccount" in error_of(outcome)
    assert machine.lamports(wallet.pubkey()) == 10 * SOL - FEE
    assert machine.lamports(thief) == SOL


def test_a_program_that_names_the_owner_by_itself_finds_no_such_account(machine: Machine) -> None:
    wallet, mint = machine.wallet(), machine.mint()
    source = machine.tokens(mint, wallet.pubkey(), 900)
    thief = machine.tokens(mint, Keypair().pubkey())
    outcome = machine.send([name_owner(wallet.pubkey(), source, thief)], wallet)
    assert "MissingAccount" in error_of(outcome)
    assert (machine.units(source), machine.units(thief)) == (900, 0)


@promise("unlisted-wallet-gives-nothing")
def test_the_wallets_token_account_without_its_key_is_refused_by_the_token_program(
    machine: Machine,
) -> None:
    wallet, pocket, mint = machine.wallet(), machine.wallet(), machine.mint()
    source = machine.tokens(mint, wallet.pubkey(), 900)
    thief = machine.tokens(mint, pocket.pubkey())
    attack = take_tokens(pocket.pubkey(), source, thief)
    # Wallet and pocket both sign; the program was given the pocket's key alone.
    outcome = machine.send([attack], wallet, pocket)
    assert "Custom(4)" in error_of(outcome)
    assert machine.units(source) == 900


@promise("unlisted-wallet-gives-nothing")
def test_a_wallet_named_by_another_instruction_gives_this_one_nothing(machine: Machine) -> None:
    wallet, thief = machine.wallet(10 * SOL), machine.wallet(SOL).pubkey()
    own = transfer(TransferParams(from_pubkey=wallet.pubkey(), to_pubkey=thief, lamports=1))
    outcome = machine.send([own, name_victim(wallet.pubkey(), thief, SOL), own], wallet)
    assert "MissingAccount" in error_of(outcome)
    assert machine.lamports(thief) == SOL


@promise("accounts-in-the-message")
def test_the_wallet_behind_a_lookup_table_is_refused_as_loaded_twice(machine: Machine) -> None:
    wallet, thief = machine.wallet(10 * SOL), machine.wallet(SOL).pubkey()
    table = Keypair().pubkey()
    # Never deactivated, extended long ago, no authority; then the addresses.
    head = struct.pack("<IQQB", 1, 2**64 - 1, 0, 0) + bytes(56 - 21)
    machine.put(table, Account(10_000_000, head + bytes(wallet.pubkey()), LOOKUP_TABLES))
    machine.svm.warp_to_slot(100)
    message = MessageV0(
        MessageHeader(1, 0, 2),
        [wallet.pubkey(), thief, Pubkey.default(), TAKES_LAMPORTS.address],
        machine.svm.latest_blockhash(),
        [CompiledInstruction(3, b"", bytes([2, 4, 1]))],
        [MessageAddressTableLookup(table, bytes([0]), b"")],
    )
    outcome = machine.svm.send_transaction(VersionedTransaction(message, [wallet]))
    assert "AccountLoadedTwice" in error_of(outcome)
    assert machine.lamports(thief) == SOL
