"""Programs on a bare virtual machine: ordinary, hostile, and those of mainnet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.token import ID as TOKEN_PROGRAM
from solders.token.state import Mint, TokenAccount, TokenAccountState
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata
from tests.market_source import (
    COUNT,
    DATA,
    INFOS,
    KEY,
    LAMPORTS,
    MOST_ACCOUNTS,
    READ_ACCOUNTS,
    TABLE,
)
from tests.sbpf import assemble

from solward.solana.accounts import max_rent
from solward_localnet.market import program_account, seeded


def batch_of(*inner: Instruction, tail: bytes = b"") -> Instruction:
    """A `Batch` of instructions of one token program; `tail` follows the last of them."""
    data = b"\xff" + b"".join(
        bytes([len(one.accounts), len(one.data)]) + bytes(one.data) for one in inner
    )
    program = inner[0].program_id if inner else TOKEN_PROGRAM
    return Instruction(program, data + tail, [meta for one in inner for meta in one.accounts])


# A bare LiteSVM for tests of programs: accounts put in place, one transaction, what it did.

# As the VM asks by default, and enough on any localnet.
TOKEN_RENT = max_rent(165)
SOL = 1_000_000_000
WSOL = Pubkey.from_string("So11111111111111111111111111111111111111112")


def mint_account(decimals: int = 6, supply: int = 10**18) -> Account:
    """A mint of SPL Token that nobody may mint or freeze, as a ledger has it."""
    state = Mint(
        mint_authority=None,
        supply=supply,
        decimals=decimals,
        is_initialized=True,
        freeze_authority=None,
    )
    return Account(max_rent(82), bytes(state), TOKEN_PROGRAM)


def token_account(
    mint: Pubkey, owner: Pubkey, units: int = 0, program: Pubkey = TOKEN_PROGRAM
) -> Account:
    """A token account as a ledger has it; one of wrapped SOL holds the lamports too."""
    native = mint == WSOL
    state = TokenAccount(
        mint=mint,
        owner=owner,
        amount=units,
        delegate=None,
        state=TokenAccountState.Initialized,
        is_native=TOKEN_RENT if native else None,
        delegated_amount=0,
        close_authority=None,
    )
    return Account(TOKEN_RENT + (units if native else 0), bytes(state), program)


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
        self.put(address, mint_account(decimals, supply))
        return address

    def tokens(
        self, mint: Pubkey, owner: Pubkey, units: int = 0, address: Pubkey | None = None
    ) -> Pubkey:
        """A token account of `mint`, native for wrapped SOL."""
        where = address or Keypair().pubkey()
        self.put(where, token_account(mint, owner, units))
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


# Programs that steal, for the real virtual machine: what they can take, an attacker can.

_TOKEN_AMOUNT = DATA + 64
_CALL, _METAS, _CALL_DATA = INFOS - 40, INFOS - 88, INFOS - 104
_WRITTEN, _SIGNS = 1, 256


def _key_of(account: int) -> str:
    return f"ldxdw r1, [r10{TABLE + 8 * account}]\n add64 r1, {KEY}"


def _meta(index: int, flags: int, metas: int = _METAS) -> str:
    """Name the key r1 points to as the call's account `index`."""
    place = metas + 16 * index
    return f"stxdw [r10{place}], r1\n stdw [r10{place + 8}], {flags}"


def _called(metas: int, data_bytes: int, program: int = 0, at: int = _METAS) -> str:
    """Call the program that is account `program`, with every account there is."""
    return f"""
    {_key_of(program)}
    stxdw [r10{_CALL}], r1
    mov64 r1, r10
    add64 r1, {at}
    stxdw [r10{_CALL + 8}], r1
    stdw [r10{_CALL + 16}], {metas}
    mov64 r1, r10
    add64 r1, {_CALL_DATA}
    stxdw [r10{_CALL + 24}], r1
    stdw [r10{_CALL + 32}], {data_bytes}
    mov64 r1, r10
    add64 r1, {_CALL}
    mov64 r2, r10
    add64 r2, {INFOS}
    ldxdw r3, [r10{COUNT}]
    mov64 r4, 0
    mov64 r5, 0
    call sol_invoke_signed_c
    mov64 r0, 0
    exit
invalid_accounts:
    mov64 r0, 1
    exit
"""


# Accounts: System, the victim, the thief's account.
_TAKES_LAMPORTS = f"""
entrypoint:
    {READ_ACCOUNTS}
    {_key_of(1)}
    {_meta(0, _WRITTEN | _SIGNS)}
    {_key_of(2)}
    {_meta(1, _WRITTEN)}
    ldxdw r1, [r10{TABLE + 8}]
    ldxdw r1, [r1+{LAMPORTS}]
    stw [r10{_CALL_DATA}], 2
    stxdw [r10{_CALL_DATA + 4}], r1
    {_called(2, 12)}
"""


def _takes_tokens(program: int, authority: int, source: int, thief: int) -> str:
    """Where the token program, who disposes of the tokens, their account and the thief's stand."""
    return f"""
entrypoint:
    {READ_ACCOUNTS}
    {_key_of(source)}
    {_meta(0, _WRITTEN)}
    {_key_of(thief)}
    {_meta(1, _WRITTEN)}
    {_key_of(authority)}
    {_meta(2, _SIGNS)}
    ldxdw r1, [r10{TABLE + 8 * source}]
    ldxdw r1, [r1+{_TOKEN_AMOUNT}]
    stb [r10{_CALL_DATA}], 3
    stxdw [r10{_CALL_DATA + 1}], r1
    {_called(3, 9, program)}
"""


# Accounts: System, the thief's account. Data: the victim's key, the lamports to take.
_NAMES_THE_VICTIM = f"""
entrypoint:
    {READ_ACCOUNTS}
    mov64 r1, r6
    add64 r1, 8
    {_meta(0, _WRITTEN | _SIGNS)}
    {_key_of(1)}
    {_meta(1, _WRITTEN)}
    ldxdw r1, [r6+40]
    stw [r10{_CALL_DATA}], 2
    stxdw [r10{_CALL_DATA + 4}], r1
    {_called(2, 12)}
"""

# Accounts: the token program, the victim's token account, the thief's. Data: the victim's key.
_NAMES_THE_OWNER = f"""
entrypoint:
    {READ_ACCOUNTS}
    {_key_of(1)}
    {_meta(0, _WRITTEN)}
    {_key_of(2)}
    {_meta(1, _WRITTEN)}
    mov64 r1, r6
    add64 r1, 8
    {_meta(2, _SIGNS)}
    ldxdw r1, [r10{TABLE + 8}]
    ldxdw r1, [r1+{_TOKEN_AMOUNT}]
    stb [r10{_CALL_DATA}], 3
    stxdw [r10{_CALL_DATA + 1}], r1
    {_called(3, 9)}
"""


_ROUTED, _ROUTE_METAS = 8, INFOS - 240


def _metas_of_route() -> str:
    flags = {1: _SIGNS} | dict.fromkeys((2, 3, 6, 7), _WRITTEN)
    named = [
        f"{_key_of(each)}\n{_meta(each, flags.get(each, 0), _ROUTE_METAS)}"
        for each in range(_ROUTED)
    ]
    return "\n".join(named)


# A long route reads no more accounts than the market takes, and its program; others are walked by.
_READ_ROUTE = (
    READ_ACCOUNTS.replace(f"jgt r7, {MOST_ACCOUNTS}", "jgt r7, 64")
    .replace("mov64 r2, r8", "mov64 r2, r5")
    .replace("mov64 r3, r8", "mov64 r3, r5")
    .replace(
        "read_account:\n",
        f"""read_account:
    mov64 r5, r8
    jlt r5, {_ROUTED + 1}, placed
    mov64 r5, {_ROUTED + 1}
placed:
""",
    )
)

# Accounts: those of the market's swap over one pool, the market's program, and any number more, as
# the further pools of a long route. Data: the market's.
_ROUTES = f"""
entrypoint:
    {_READ_ROUTE}
    stdw [r10{COUNT}], {_ROUTED + 1}
    {_metas_of_route()}
    ldxdw r1, [r6+8]
    stxdw [r10{_CALL_DATA}], r1
    ldxdw r1, [r6+16]
    stxdw [r10{_CALL_DATA + 8}], r1
    ldxb r1, [r6+24]
    stxb [r10{_CALL_DATA + 16}], r1
    {_called(_ROUTED, 17, _ROUTED, _ROUTE_METAS)}
"""


@dataclass(frozen=True)
class HostileProgram:
    """A program under an address of its own."""

    name: str
    source: str

    @property
    def address(self) -> Pubkey:
        return seeded(f"hostile {self.name}").pubkey()

    @cache  # noqa: B019 - there are five of them
    def file(self) -> bytes:
        return assemble(self.source)

    def call(self, data: bytes, accounts: Sequence[AccountMeta]) -> Instruction:
        return Instruction(self.address, data, list(accounts))


TAKES_LAMPORTS = HostileProgram("takes lamports", _TAKES_LAMPORTS)
TAKES_TOKENS = HostileProgram("takes tokens", _takes_tokens(0, 1, 2, 3))
NAMES_THE_VICTIM = HostileProgram("names the victim", _NAMES_THE_VICTIM)
NAMES_THE_OWNER = HostileProgram("names the owner", _NAMES_THE_OWNER)

ROUTES = HostileProgram("routes", _ROUTES)

PROGRAMS = (TAKES_LAMPORTS, TAKES_TOKENS, NAMES_THE_VICTIM, NAMES_THE_OWNER, ROUTES)


def hostile_accounts() -> Mapping[Pubkey, Account]:
    """The programs as accounts of a ledger, for its genesis."""
    return {each.address: program_account(each.file()) for each in PROGRAMS}


def takes_tokens_of(program: int, authority: int, source: int, thief: int) -> HostileProgram:
    """Like `TAKES_TOKENS`, with a call's accounts elsewhere: in the place of an honest program."""
    source_text = _takes_tokens(program, authority, source, thief)
    return HostileProgram(f"takes tokens {program} {authority} {source} {thief}", source_text)


def take_lamports(
    victim: Pubkey, thief: Pubkey, *, signs: bool = True, others: Sequence[AccountMeta] = ()
) -> Instruction:
    """Everything `victim` has to `thief`, by the signature `victim` gave the transaction."""
    accounts = [_readonly(SYSTEM_PROGRAM), AccountMeta(victim, signs, True), _written(thief)]
    return TAKES_LAMPORTS.call(b"", [*accounts, *others])


def take_tokens(
    authority: Pubkey,
    source: Pubkey,
    thief: Pubkey,
    *,
    signs: bool = True,
    program: Pubkey = TOKEN_PROGRAM,
    others: Sequence[AccountMeta] = (),
) -> Instruction:
    """Everything in `source` to the token account `thief`, as `authority` may dispose of it."""
    accounts = [_readonly(program), AccountMeta(authority, signs, False)]
    accounts += [_written(source), _written(thief)]
    return TAKES_TOKENS.call(b"", [*accounts, *others])


def name_victim(
    victim: Pubkey, thief: Pubkey, lamports: int, *, others: Sequence[AccountMeta] = ()
) -> Instruction:
    """Lamports of `victim`, whom the program names though it was not given the account."""
    data = bytes(victim) + lamports.to_bytes(8, "little")
    return NAMES_THE_VICTIM.call(data, [_readonly(SYSTEM_PROGRAM), _written(thief), *others])


def name_owner(
    owner: Pubkey, source: Pubkey, thief: Pubkey, *, others: Sequence[AccountMeta] = ()
) -> Instruction:
    """Everything in `source` by its owner, whom the program names though it was not given it."""
    accounts = [_readonly(TOKEN_PROGRAM), _written(source), _written(thief)]
    return NAMES_THE_OWNER.call(bytes(owner), [*accounts, *others])


def _readonly(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=False)


def _written(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=True)


# Programs of other people as they run on mainnet, from a folder that the environment names.

FOLDER = "SOLWARD_TEST_PROGRAMS"


def real_programs(*addresses: Pubkey) -> dict[Pubkey, Account]:
    """These programs as accounts of a ledger; skips the test where one is not there."""
    named = os.environ.get(FOLDER)
    if not named:
        pytest.skip(f"{FOLDER} names no folder with the programs of mainnet")
    found = {}
    for address in addresses:
        file = Path(named) / f"{address}.so"
        if not file.is_file():
            pytest.skip(f"{FOLDER} has no {file.name}")
        found[address] = program_account(file.read_bytes())
    return found
