"""The attacks of the reliability reference as instructions: each with the rule that refuses it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token.instructions import create_idempotent_associated_token_account
from tests.support.programs import batch_of
from tests.vault.guardrails.bank import SOL, Bank, key, mint_data, nonce_data, stake_data

from solward.solana.programs import (
    LOOKUP_TABLE_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    VOTE_PROGRAM,
)

CLOCK: Final = "SysvarC1ock11111111111111111111111111111111"
RECENT: Final = "SysvarRecentB1ockHashes11111111111111111111"
RENT: Final = "SysvarRent111111111111111111111111111111111"
HISTORY: Final = "SysvarStakeHistory1111111111111111111111111"
LOADER: Final = "BPFLoaderUpgradeab1e11111111111111111111111"


@dataclass(frozen=True)
class Attack:
    """`make` builds the instructions; `signers` are the other keys that sign; `runs` says
    whether the VM executes it (else it is judged on unchanged accounts); `simulated` whether what
    is simulated shows it, beside the bytes."""

    name: str
    rule: str
    make: Callable[[Bank], Sequence[Instruction]]
    signers: Callable[[Bank], Sequence[Keypair]] = lambda bank: ()
    runs: bool = True
    simulated: bool = True


def call(program: str, data: bytes, *accounts: tuple[Pubkey, str]) -> Instruction:
    """Accounts with flags: `w` writable, `s` signer."""
    metas = [AccountMeta(account, "s" in flags, "w" in flags) for account, flags in accounts]
    return Instruction(key(program), data, metas)


def system(kind: int, data: bytes, *accounts: tuple[Pubkey, str]) -> Instruction:
    return call(SYSTEM_PROGRAM, struct.pack("<I", kind) + data, *accounts)


def token(data: bytes, *accounts: tuple[Pubkey, str], program: str = TOKEN_PROGRAM) -> Instruction:
    return call(program, data, *accounts)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def pay(bank: Bank, lamports: int, to: Pubkey | None = None) -> Instruction:
    to = to or bank.stranger.pubkey()
    return transfer(TransferParams(from_pubkey=bank.own, to_pubkey=to, lamports=lamports))


def seeded(bank: Bank) -> Pubkey:
    return Pubkey.create_with_seed(bank.own, "x", key(SYSTEM_PROGRAM))


def transfer_with_seed(bank: Bank) -> list[Instruction]:
    bank.svm.airdrop(seeded(bank), SOL)
    data = u64(SOL // 2) + u64(1) + b"x" + bytes(key(SYSTEM_PROGRAM))
    return [system(11, data, (seeded(bank), "w"), (bank.own, "s"), (bank.stranger.pubkey(), "w"))]


def create_with_seed(bank: Bank) -> list[Instruction]:
    data = bytes(bank.own) + u64(1) + b"x" + u64(SOL // 2) + u64(0) + bytes(key(SYSTEM_PROGRAM))
    return [system(3, data, (bank.own, "sw"), (seeded(bank), "w"))]


def create(kind: int) -> Callable[[Bank], list[Instruction]]:
    def make(bank: Bank) -> list[Instruction]:
        data = u64(SOL // 2) + u64(0) + bytes(key(STAKE_PROGRAM))
        new, funder = (bank.friend.pubkey(), "sw"), (bank.own, "sw")
        return [system(kind, data, *([new, funder] if kind == 13 else [funder, new]))]

    return make


def fresh(kind: int) -> Callable[[Bank], list[Instruction]]:
    """The same into an address that does not exist yet: the friend's, emptied."""
    inner = create(kind)

    def make(bank: Bank) -> list[Instruction]:
        bank.friend = Keypair()
        return inner(bank)

    return make


def nonce(bank: Bank) -> Pubkey:
    return bank.put(SYSTEM_PROGRAM, nonce_data(bank.own), SOL)


def stake(bank: Bank) -> Pubkey:
    return bank.put(STAKE_PROGRAM, stake_data(bank.own), 3 * SOL)


def withdraw_nonce(bank: Bank) -> list[Instruction]:
    return [system(5, u64(SOL // 2), (nonce(bank), "w"), (bank.stranger.pubkey(), "w"),
                   (key(RECENT), ""), (key(RENT), ""), (bank.own, "s"))]  # fmt: skip


def approve(bank: Bank) -> Instruction:
    return token(
        b"\x04" + u64(5), (bank.tokens, "w"), (bank.stranger.pubkey(), ""), (bank.own, "s")
    )


def approve_checked(bank: Bank) -> Instruction:
    return token(b"\x0d" + u64(5) + b"\x06", (bank.tokens, "w"), (bank.mint, ""),
                 (bank.stranger.pubkey(), ""), (bank.own, "s"))  # fmt: skip


def set_authority(account: str, kind: int, new: bool = True) -> Callable[[Bank], list[Instruction]]:
    def make(bank: Bank) -> list[Instruction]:
        to = b"\x01" + bytes(bank.stranger.pubkey()) if new else b"\x00"
        target = bank.tokens if account == "tokens" else bank.mint
        return [token(bytes([6, kind]) + to, (target, "w"), (bank.own, "s"))]

    return make


def close_to_stranger(bank: Bank) -> Instruction:
    wrapped = bank.put_tokens(bank.wsol, bank.own, SOL)
    return token(b"\x09", (wrapped, "w"), (bank.stranger.pubkey(), "w"), (bank.own, "s"))


def batch(*inner: Callable[[Bank], Instruction]) -> Callable[[Bank], list[Instruction]]:
    def make(bank: Bank) -> list[Instruction]:
        return [batch_of(*(build(bank) for build in inner))]

    return make


def withdraw_excess(bank: Bank) -> list[Instruction]:
    bank.put(TOKEN_PROGRAM, mint_data(bank.own), SOL, at=bank.mint)
    return [token(bytes([38]), (bank.mint, "w"), (bank.stranger.pubkey(), "w"), (bank.own, "s"))]


def unwrap(bank: Bank) -> Instruction:
    wrapped = bank.put_tokens(bank.wsol, bank.own, SOL)
    return token(b"\x2d\x00", (wrapped, "w"), (bank.stranger.pubkey(), "w"), (bank.own, "s"))


def move_tokens(bank: Bank, to: Pubkey | None = None) -> Instruction:
    to = to or bank.their_tokens
    return token(b"\x03" + u64(500), (bank.tokens, "w"), (to, "w"), (bank.own, "s"))


def burn(bank: Bank) -> list[Instruction]:
    return [token(b"\x08" + u64(500), (bank.tokens, "w"), (bank.mint, "w"), (bank.own, "s"))]


def accounts_for_strangers(bank: Bank) -> list[Instruction]:
    return [
        create_idempotent_associated_token_account(bank.own, Pubkey.new_unique(), bank.mint)
        for _ in range(5)
    ]


def advance_nonce(bank: Bank) -> list[Instruction]:
    return [system(4, b"", (nonce(bank), "w"), (key(RECENT), ""), (bank.own, "s")), pay(bank, 1)]


def authorize_nonce(bank: Bank) -> list[Instruction]:
    return [system(7, bytes(bank.stranger.pubkey()), (nonce(bank), "w"), (bank.own, "s"))]


def authorize_stake(bank: Bank) -> list[Instruction]:
    data = struct.pack("<I", 1) + bytes(bank.stranger.pubkey()) + struct.pack("<I", 1)
    return [call(STAKE_PROGRAM, data, (stake(bank), "w"), (key(CLOCK), ""), (bank.own, "s"))]


def authorize_stake_checked(bank: Bank) -> list[Instruction]:
    data = struct.pack("<II", 10, 0)
    return [call(STAKE_PROGRAM, data, (stake(bank), "w"), (key(CLOCK), ""), (bank.own, "s"),
                 (bank.stranger.pubkey(), "s"))]  # fmt: skip


def withdraw_stake(bank: Bank) -> list[Instruction]:
    return [call(STAKE_PROGRAM, struct.pack("<I", 4) + u64(SOL // 2), (stake(bank), "w"),
                 (bank.stranger.pubkey(), "w"), (key(CLOCK), ""), (key(HISTORY), ""),
                 (bank.own, "s"))]  # fmt: skip


def lock_stake(bank: Bank) -> list[Instruction]:
    data = struct.pack("<I", 6) + b"\x01" + struct.pack("<q", 2**40) + b"\x00\x00"
    return [call(STAKE_PROGRAM, data, (stake(bank), "w"), (bank.own, "s"))]


def split_to_stranger(bank: Bank) -> list[Instruction]:
    target = bank.put(STAKE_PROGRAM, bytes(200), 2_282_880)
    split = struct.pack("<I", 3) + u64(SOL)
    authorize = struct.pack("<I", 1) + bytes(bank.stranger.pubkey()) + struct.pack("<I", 1)
    return [call(STAKE_PROGRAM, split, (stake(bank), "w"), (target, "w"), (bank.own, "s")),
            call(STAKE_PROGRAM, authorize, (target, "w"), (key(CLOCK), ""),
                 (bank.own, "s"))]  # fmt: skip


def close_table(bank: Bank) -> list[Instruction]:
    table = bank.put_table([bank.own])
    data = struct.pack("<I", 4)
    return [
        call(
            LOOKUP_TABLE_PROGRAM, data, (table, "w"), (bank.own, "s"), (bank.stranger.pubkey(), "w")
        )
    ]


def close_program(bank: Bank) -> list[Instruction]:
    buffer = bank.put(LOADER, bytes(64), SOL)
    data = struct.pack("<I", 5)
    return [call(LOADER, data, (buffer, "w"), (bank.stranger.pubkey(), "w"), (bank.own, "s"))]


def authorize_vote(bank: Bank) -> list[Instruction]:
    account = bank.put(VOTE_PROGRAM, bytes(3762), SOL)
    data = struct.pack("<I", 1) + bytes(bank.stranger.pubkey()) + struct.pack("<I", 1)
    return [call(VOTE_PROGRAM, data, (account, "w"), (key(CLOCK), ""), (bank.own, "s"))]


def unknown_program(bank: Bank) -> list[Instruction]:
    return [call(str(Pubkey.new_unique()), b"\x01", (bank.own, "sw"))]


def unknown_instruction(program: str, data: bytes) -> Callable[[Bank], list[Instruction]]:
    return lambda bank: [call(program, data, (bank.own, "sw"), (bank.tokens, "w"))]


def masked(bank: Bank) -> list[Instruction]:
    back = transfer(TransferParams(
        from_pubkey=bank.stranger.pubkey(), to_pubkey=bank.own, lamports=SOL))  # fmt: skip
    return [pay(bank, SOL), back]


def through_multisig(bank: Bank) -> list[Instruction]:
    members = [bank.own, bank.stranger.pubkey()]
    data = bytes([1, 2, 1]) + b"".join(bytes(member) for member in members) + bytes(32 * 9)
    multisig = bank.put(TOKEN_PROGRAM, data)
    account = bank.put_tokens(bank.mint, multisig, 900)
    return [token(b"\x03" + u64(900), (account, "w"), (bank.their_tokens, "w"), (multisig, ""),
                  (bank.own, "s"))]  # fmt: skip


def through_multisig_with_a_fee(bank: Bank) -> list[Instruction]:
    members = [bank.own, bank.stranger.pubkey()]
    data = bytes([1, 2, 1]) + b"".join(bytes(member) for member in members) + bytes(32 * 9)
    multisig = bank.put(TOKEN_2022_PROGRAM, data)
    account = bank.put_tokens(bank.mint, multisig, 900, TOKEN_2022_PROGRAM)
    return [call(TOKEN_2022_PROGRAM, b"\x1a\x01" + u64(900) + b"\x06" + u64(0), (account, "w"),
                 (bank.mint, ""), (bank.their_tokens, "w"), (multisig, ""),
                 (bank.own, "s"))]  # fmt: skip


def extended_mint(kind: int, size: int) -> Callable[[Bank], list[Instruction]]:
    def make(bank: Bank) -> list[Instruction]:
        value = b"\x02" if kind == 6 else bytes(size)
        extension = struct.pack("<HH", kind, size) + value
        mint = bank.put(TOKEN_2022_PROGRAM, mint_data(bank.own, extensions=extension))
        mine = bank.put_tokens(mint, bank.own, 10**6, TOKEN_2022_PROGRAM)
        # To itself: nothing is lost, and yet these tokens can be taken, stopped or taxed.
        return [token(bytes([12]) + u64(1) + b"\x06", (mine, "w"), (mint, ""), (mine, "w"),
                      (bank.own, "s"), program=TOKEN_2022_PROGRAM)]  # fmt: skip

    return make


def mint_to_stranger(bank: Bank) -> list[Instruction]:
    return [
        token(b"\x07" + u64(10**9), (bank.mint, "w"), (bank.their_tokens, "w"), (bank.own, "s"))
    ]


def stake_for_stranger(bank: Bank) -> list[Instruction]:
    target = bank.put(STAKE_PROGRAM, bytes(200), 3 * SOL)
    data = bytes(4) + bytes(bank.own) + bytes(bank.stranger.pubkey()) + bytes(48)
    return [call(STAKE_PROGRAM, data, (target, "w"), (key(RENT), ""))]


def friend(bank: Bank) -> list[Keypair]:
    return [bank.friend]


def stranger(bank: Bank) -> list[Keypair]:
    return [bank.stranger]


ATTACKS: Final = (
    Attack("01 many small transfers", "simulated_effects",
           lambda bank: [pay(bank, 9_000_000) for _ in range(3)]),
    Attack("02 transfer with seed", "simulated_effects", transfer_with_seed),
    Attack("02 create account", "simulated_effects", fresh(0), friend),
    Attack("02 create account with seed", "simulated_effects", create_with_seed),
    Attack("02 create account allow prefund", "simulated_effects", fresh(13), friend),
    Attack("02 withdraw nonce", "simulated_effects", withdraw_nonce),
    Attack("03 assign the wallet", "authority_change",
           lambda bank: [system(1, bytes(bank.stranger.pubkey()), (bank.own, "sw"))]),
    Attack("04 allocate the wallet", "authority_change",
           lambda bank: [system(8, u64(64), (bank.own, "sw"))]),
    Attack("04 prefund the wallet", "authority_change",
           lambda bank: [system(13, u64(0) + u64(8) + bytes(key(SYSTEM_PROGRAM)),
                                (bank.own, "sw"))]),
    Attack("09 program off the list", "program_allowlist", unknown_program, runs=False,
           simulated=False),
    Attack("12 tip", "simulated_effects",
           lambda bank: [pay(bank, 10_000_000), pay(bank, 1_000, bank.friend.pubkey())]),
    Attack("13 approve", "authority_change", lambda bank: [approve(bank)]),
    Attack("13 approve checked", "authority_change", lambda bank: [approve_checked(bank)]),
    Attack("14 token owner", "authority_change", set_authority("tokens", 2)),
    Attack("14 close authority", "authority_change", set_authority("tokens", 3)),
    Attack("14 mint authority", "authority_change", set_authority("mint", 0)),
    Attack("14 undeclared revoke", "authority_change", set_authority("mint", 0, new=False)),
    Attack("15 close to a stranger", "simulated_effects", lambda bank: [close_to_stranger(bank)]),
    Attack("15 undeclared close", "simulated_effects",
           lambda bank: [token(b"\x09", (bank.put_tokens(bank.wsol, bank.own, SOL), "w"),
                               (bank.own, "sw"), (bank.own, "sw"))]),
    Attack("16 batch of approve", "authority_change", batch(approve)),
    Attack("16 batch of close", "simulated_effects", batch(close_to_stranger)),
    Attack("16 batch of transfer", "simulated_effects", batch(move_tokens)),
    Attack("16 withdraw excess lamports", "simulated_effects", withdraw_excess),
    Attack("16 unwrap to a stranger", "simulated_effects", lambda bank: [unwrap(bank)]),
    Attack("16 batch of unwrap", "simulated_effects", batch(unwrap)),
    Attack("17 permanent delegate", "simulated_effects", extended_mint(12, 32)),
    Attack("17 transfer hook", "simulated_effects", extended_mint(14, 64)),
    Attack("17 transfer fee", "simulated_effects", extended_mint(1, 108)),
    Attack("17 pausable", "simulated_effects", extended_mint(26, 33)),
    Attack("17 frozen by default", "simulated_effects", extended_mint(6, 1)),
    Attack("17 extension of tomorrow", "simulated_effects", extended_mint(99, 8)),
    Attack("18 token transfer", "simulated_effects", lambda bank: [move_tokens(bank)]),
    Attack("18 burn", "simulated_effects", burn),
    Attack("19 accounts for strangers", "fee_limit", accounts_for_strangers),
    Attack("20 advance nonce", "program_allowlist", advance_nonce),
    Attack("21 nonce authorize", "authority_change", authorize_nonce),
    Attack("21 stake authorize", "authority_change", authorize_stake),
    Attack("21 stake authorize checked", "authority_change", authorize_stake_checked, stranger),
    Attack("21 stake withdraw", "simulated_effects", withdraw_stake),
    Attack("21 stake lockup", "authority_change", lock_stake),
    Attack("21 stake split", "authority_change", split_to_stranger),
    Attack("21 stake for a stranger", "authority_change", stake_for_stranger),
    Attack("21 lookup table close", "program_allowlist", close_table, runs=False,
           simulated=False),
    Attack("21 loader close", "program_allowlist", close_program, simulated=False),
    Attack("21 vote authorize", "program_allowlist", authorize_vote, runs=False,
           simulated=False),
    Attack("25 inflow masks outflow", "simulated_effects", masked, stranger),
    Attack("31 multisig member", "authority_change", through_multisig),
    Attack("31 multisig member with a fee", "authority_change", through_multisig_with_a_fee,
           runs=False),
    Attack("default deny: system", "program_allowlist",
           unknown_instruction(SYSTEM_PROGRAM, struct.pack("<I", 12)), runs=False),
    Attack("default deny: token", "program_allowlist",
           unknown_instruction(TOKEN_PROGRAM, b"\x02\x01"), runs=False),
    Attack("default deny: token-2022", "program_allowlist",
           unknown_instruction(TOKEN_2022_PROGRAM, b"\x23" + bytes(33)), runs=False),
    Attack("default deny: stake", "program_allowlist",
           unknown_instruction(STAKE_PROGRAM, struct.pack("<I", 15)), runs=False),
    Attack("default deny: truncated", "program_allowlist",
           unknown_instruction(SYSTEM_PROGRAM, b"\x02\x00"), runs=False),
    Attack("minting to a stranger", "simulated_effects", mint_to_stranger),
)  # fmt: skip
