"""Programs that steal, for the real virtual machine: what they can take, an attacker can.

Each takes whatever is there when it runs, so no amount that was read before helps. Accounts beyond
those it needs are allowed, as many as an honest swap would name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.token import ID as TOKEN_PROGRAM

from solward_localnet.market_program import program_account, seeded
from solward_localnet.program_input import COUNT, DATA, INFOS, KEY, LAMPORTS, READ_ACCOUNTS, TABLE
from solward_localnet.sbpf import assemble

_TOKEN_AMOUNT = DATA + 64
_CALL, _METAS, _CALL_DATA = INFOS - 40, INFOS - 88, INFOS - 104
_WRITTEN, _SIGNS = 1, 256


def _key_of(account: int) -> str:
    return f"ldxdw r1, [r10{TABLE + 8 * account}]\n add64 r1, {KEY}"


def _meta(index: int, flags: int) -> str:
    """Name the key r1 points to as the call's account `index`."""
    place = _METAS + 16 * index
    return f"stxdw [r10{place}], r1\n stdw [r10{place + 8}], {flags}"


def _called(metas: int, data_bytes: int, program: int = 0) -> str:
    """Call the program that is account `program`, with every account there is."""
    return f"""
    {_key_of(program)}
    stxdw [r10{_CALL}], r1
    mov64 r1, r10
    add64 r1, {_METAS}
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


@dataclass(frozen=True)
class HostileProgram:
    """A program under an address of its own."""

    name: str
    source: str

    @property
    def address(self) -> Pubkey:
        return seeded(f"hostile {self.name}").pubkey()

    @cache  # noqa: B019 - there are four of them
    def file(self) -> bytes:
        return assemble(self.source)

    def call(self, data: bytes, accounts: Sequence[AccountMeta]) -> Instruction:
        return Instruction(self.address, data, list(accounts))


TAKES_LAMPORTS = HostileProgram("takes lamports", _TAKES_LAMPORTS)
TAKES_TOKENS = HostileProgram("takes tokens", _takes_tokens(0, 1, 2, 3))
NAMES_THE_VICTIM = HostileProgram("names the victim", _NAMES_THE_VICTIM)
NAMES_THE_OWNER = HostileProgram("names the owner", _NAMES_THE_OWNER)

PROGRAMS = (TAKES_LAMPORTS, TAKES_TOKENS, NAMES_THE_VICTIM, NAMES_THE_OWNER)


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
