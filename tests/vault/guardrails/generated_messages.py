"""Messages drawn by chance: what the service builds, what thieves build, and both mutated.

A shape is a few instructions that belong together, signed by the wallet or the thief. Messages
are shapes one after the other; then accounts, data and lengths are changed, some accounts are
loaded through a lookup table that does not hold what it is said to hold, and the thief runs
transactions of his own before the message lands.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import TransactionConfig
from solders.pubkey import Pubkey
from spl.token.instructions import get_associated_token_address
from tests.support.programs import batch_of, name_owner, name_victim, take_lamports, take_tokens
from tests.vault.guardrails.attacks import CLOCK, HISTORY, RECENT, RENT, call, u64
from tests.vault.guardrails.bank import SOL, key
from tests.vault.guardrails.world import (
    SEED,
    SEEDED,
    STAKE,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    MintAt,
    World,
    keypair,
)

from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    ED25519_PROGRAM,
    MEMO_PROGRAM,
    STAKE_CONFIG,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
)

MAX_INSTRUCTIONS: Final = 8
_SIZES: Final = (0, 80, 82, 165, 170, 200, 234, 355)


@dataclass(frozen=True)
class Case:
    """One generated message, and what surrounds it.

    Attributes:
        config: of a message of version 1; the others have none.
        claimed: what the lookup table is said to hold; None where the message has none.
        held: what it holds when the message lands.
        fronts: the instructions of each transaction the thief lands before.
    """

    payer: Pubkey
    instructions: tuple[Instruction, ...]
    legacy: bool = False
    config: TransactionConfig | None = None
    claimed: tuple[Pubkey, ...] | None = None
    held: tuple[Pubkey, ...] = ()
    fronts: tuple[tuple[Instruction, ...], ...] = ()
    state: int = 0


@dataclass
class Draw:
    """The choices of one shape: `who` signs it."""

    world: World
    rng: random.Random
    who: Pubkey

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def any(self) -> Pubkey:
        return self.rng.choice(self.world.pool)

    def person(self) -> Pubkey:
        world = self.world
        return self.rng.choice([world.own, world.them, world.them, world.stranger])

    def amount(self) -> int:
        rng = self.rng
        return rng.choice(
            [0, 1, rng.randrange(1, 1_000), rng.randrange(1, 10**6), 5 * 10**5, 10**6, 10**9,
             rng.randrange(1, 20 * SOL), 2**64 - 1]
            if rng.random() < 0.3 else [rng.randrange(1, 10**5), 10**5, 5 * 10**5, 10**6]
        )  # fmt: skip

    def lamports(self) -> int:
        return self.rng.choice([0, 890_880, 2_039_280, SOL, SOL, 3 * SOL, self.amount()])

    def mint(self) -> MintAt:
        return self.rng.choice(self.world.mints)

    def source(self, mint: MintAt) -> Pubkey:
        """An account `who` may move, most of the time."""
        if self.chance(0.08):
            return self.any()
        if self.who == self.world.own:
            return self.rng.choice(
                [mint.own] * 8 + [mint.spare] * 6 + [mint.lent] * 2 + [mint.shared]
            )
        return self.rng.choice([mint.theirs] * 3 + [mint.lent, mint.spare, mint.own])

    def target(self, mint: MintAt) -> Pubkey:
        if self.chance(0.05):
            return self.any()
        return self.rng.choice([mint.own, mint.own, mint.own, mint.theirs, mint.theirs,
                                *mint.accounts])  # fmt: skip

    def signer(self) -> tuple[Pubkey, str]:
        return (self.who, "s")

    def owners(self, mint: MintAt, at: Pubkey) -> list[tuple[Pubkey, str]]:
        """Who signs for the token account `at`: an owner, or the members of a multisig."""
        if at != mint.shared or self.chance(0.2):
            return [self.signer()]
        world = self.world
        return [(world.both[mint.program], ""), (world.own, "s"), (world.them, "s")]


def _token(mint: MintAt, data: bytes, *accounts: tuple[Pubkey, str]) -> Instruction:
    return call(str(mint.program), data, *accounts)


def _system(kind: int, data: bytes, *accounts: tuple[Pubkey, str]) -> Instruction:
    return call(SYSTEM_PROGRAM, struct.pack("<I", kind) + data, *accounts)


def _stake(kind: int, data: bytes, *accounts: tuple[Pubkey, str]) -> Instruction:
    return call(STAKE_PROGRAM, struct.pack("<I", kind) + data, *accounts)


# System.


def pay(draw: Draw) -> list[Instruction]:
    world = draw.world
    to = draw.rng.choice([draw.person(), draw.any(), world.own, draw.mint().own])
    return [_system(2, u64(draw.lamports()), (draw.who, "sw"), (to, "w"))]


def create_account(draw: Draw) -> list[Instruction]:
    new, rng = draw.rng.choice(draw.world.fresh), draw.rng
    data = u64(draw.lamports()) + u64(rng.choice(_SIZES)) + bytes(rng.choice(SEEDED))
    if draw.chance(0.2):
        return [_system(13, data, (new, "sw"), (draw.who, "sw"))]
    return [_system(0, data, (draw.who, "sw"), (new, "sw"))]


def _seeded(draw: Draw, owner: Pubkey) -> tuple[Pubkey, bytes]:
    seed = struct.pack("<Q", len(SEED)) + SEED.encode()
    return draw.world.seeded[draw.who, owner], seed


def with_seed(draw: Draw) -> list[Instruction]:
    owner, rng = draw.rng.choice(SEEDED), draw.rng
    at, seed = _seeded(draw, owner)
    size = u64(rng.choice(_SIZES))
    to = rng.choice([draw.person(), draw.world.own, draw.any()])
    return [
        rng.choice(
            [
                _system(3, bytes(draw.who) + seed + u64(draw.lamports()) + size + bytes(owner),
                        (draw.who, "sw"), (at, "w")),
                _system(11, u64(draw.lamports()) + seed + bytes(owner),
                        (at, "w"), draw.signer(), (to, "w")),
                _system(11, u64(draw.lamports()) + seed + bytes(owner),
                        (at, "w"), draw.signer(), (to, "w")),
                _system(9, bytes(draw.who) + seed + size + bytes(owner), (at, "w"), draw.signer()),
                _system(10, bytes(draw.who) + seed + bytes(owner), (at, "w"), draw.signer()),
            ]
        )
    ]  # fmt: skip


def assign(draw: Draw) -> list[Instruction]:
    at = draw.rng.choice([draw.who, draw.who, draw.rng.choice(draw.world.fresh)])
    if draw.chance(0.5):
        return [_system(1, bytes(draw.rng.choice(SEEDED)), (at, "sw"))]
    return [_system(8, u64(draw.rng.choice(_SIZES)), (at, "sw"))]


def nonce(draw: Draw) -> list[Instruction]:
    at, rng = draw.rng.choice(draw.world.nonces), draw.rng
    to = rng.choice([draw.person(), draw.world.own])
    return [
        rng.choice(
            [
                _system(4, b"", (at, "w"), (key(RECENT), ""), draw.signer()),
                _system(5, u64(draw.lamports()), (at, "w"), (to, "w"), (key(RECENT), ""),
                        (key(RENT), ""), draw.signer()),
                _system(5, u64(SOL), (at, "w"), (to, "w"), (key(RECENT), ""),
                        (key(RENT), ""), draw.signer()),
                _system(6, bytes(draw.person()), (at, "w"), (key(RECENT), ""), (key(RENT), "")),
                _system(7, bytes(draw.person()), (at, "w"), draw.signer()),
            ]
        )
    ]  # fmt: skip


# Tokens.


def open_account(
    draw: Draw, mint: MintAt, owner: Pubkey | None = None, payer: Pubkey | None = None
) -> Instruction:
    owner = owner or draw.person()
    at = get_associated_token_address(owner, mint.address, mint.program)
    return call(
        ASSOCIATED_TOKEN_PROGRAM, draw.rng.choice([b"\x01"] * 8 + [b"", b"\x00"]),
        (payer or draw.who, "sw"), (at, "w"), (owner, ""), (mint.address, ""), (SYSTEM, ""),
        (mint.program, ""),
    )  # fmt: skip


def transfer_checked(
    draw: Draw, mint: MintAt, source: Pubkey, target: Pubkey, units: int | None = None
) -> Instruction:
    units = draw.amount() if units is None else units
    decimals = mint.decimals if draw.chance(0.95) else draw.rng.randrange(12)
    return _token(
        mint, b"\x0c" + u64(units) + bytes([decimals]),
        (source, "w"), (mint.address, ""), (target, "w"), *draw.owners(mint, source),
    )  # fmt: skip


def open_accounts(draw: Draw) -> list[Instruction]:
    return [open_account(draw, draw.mint()) for _ in range(draw.rng.randrange(1, 3))]


def recover_nested(draw: Draw) -> list[Instruction]:
    mint, nested = draw.mint(), draw.mint()
    return [
        call(
            ASSOCIATED_TOKEN_PROGRAM, b"\x02", (draw.target(nested), "w"), (nested.address, ""),
            (draw.target(nested), "w"), (draw.source(mint), ""), (mint.address, ""),
            (draw.who, "sw"), (mint.program, ""),
        )
    ]  # fmt: skip


def send(draw: Draw) -> list[Instruction]:
    mint = draw.mint()
    move = transfer_checked(draw, mint, draw.source(mint), draw.target(mint))
    return [open_account(draw, mint), move] if draw.chance(0.6) else [move]


def collect(draw: Draw) -> list[Instruction]:
    """Everything into the own derived account, whose owner is checked before."""
    mint = draw.mint()
    move = transfer_checked(draw, mint, draw.source(mint), mint.own)
    return [*_checking(draw, mint), move]


def _checking(draw: Draw, mint: MintAt) -> list[Instruction]:
    """What fails unless the own derived account is the wallet's; sometimes nothing."""
    revoke_own = _token(mint, b"\x05", (mint.own, "w"), (draw.world.own, "s"))
    return draw.rng.choice([[open_account(draw, mint, draw.world.own)], [revoke_own], []])


def taxed(draw: Draw) -> list[Instruction]:
    """A transfer that states its fee, which must be right."""
    mint = draw.world.mints[5]
    units, at = draw.rng.randrange(1, 10**6), draw.source(mint)
    data = b"\x1a\x01" + u64(units) + bytes([mint.decimals]) + u64(-(-units // 10))
    return [
        _token(mint, data, (at, "w"), (mint.address, ""), (draw.target(mint), "w"),
               *draw.owners(mint, at))
    ]  # fmt: skip


def assertion(draw: Draw) -> list[Instruction]:
    mint = draw.mint()
    at = draw.source(mint)
    return [transfer_checked(draw, mint, at, at)]


def wrap(draw: Draw) -> list[Instruction]:
    mint = draw.world.mints[2]
    opened = [open_account(draw, mint, draw.world.own)] if draw.chance(0.7) else []
    paid = _system(2, u64(draw.lamports()), (draw.who, "sw"), (mint.own, "w"))
    return [*opened, paid, _token(mint, b"\x11", (mint.own, "w"))]


def close(draw: Draw) -> list[Instruction]:
    mint = draw.mint()
    to = draw.rng.choice([draw.who, draw.world.own, draw.person(), draw.target(mint)])
    at = draw.source(mint)
    one = _token(mint, b"\x09", (at, "w"), (to, "w"), *draw.owners(mint, at))
    if draw.chance(0.5):
        return [transfer_checked(draw, mint, at, draw.target(mint), 10**6), one]
    return [one]


def unchecked(draw: Draw) -> list[Instruction]:
    mint = draw.mint()
    amount, at, rng = u64(draw.amount()), draw.source(mint), draw.rng
    thief, decimals = draw.person(), bytes([mint.decimals])
    return [
        rng.choice(
            [
                _token(mint, b"\x03" + amount, (at, "w"), (draw.target(mint), "w"),
                       *draw.owners(mint, at)),
                _token(mint, b"\x04" + amount, (at, "w"), (thief, ""), *draw.owners(mint, at)),
                _token(mint, b"\x0d" + amount + decimals, (at, "w"), (mint.address, ""),
                       (thief, ""), *draw.owners(mint, at)),
                _token(mint, b"\x08" + amount, (at, "w"), (mint.address, "w"),
                       *draw.owners(mint, at)),
                _token(mint, b"\x07" + amount, (mint.address, "w"), (draw.target(mint), "w"),
                       draw.signer()),
            ]
        )
    ]  # fmt: skip


def burn(draw: Draw) -> list[Instruction]:
    mint = draw.mint()
    at = draw.source(mint)
    data = b"\x0f" + u64(draw.amount()) + bytes([mint.decimals])
    return [_token(mint, data, (at, "w"), (mint.address, "w"), *draw.owners(mint, at))]


def mint_to(draw: Draw) -> list[Instruction]:
    mint = draw.rng.choice([draw.world.mints[1], draw.world.mints[4], draw.mint()])
    data = b"\x0e" + u64(draw.amount()) + bytes([mint.decimals])
    to = draw.target(mint)
    return [*_checking(draw, mint),
            _token(mint, data, (mint.address, "w"), (to, "w"), draw.signer())]  # fmt: skip


def revoke(draw: Draw) -> list[Instruction]:
    mint = draw.mint()
    return [_token(mint, b"\x05", (draw.source(mint), "w"), draw.signer())]


def set_authority(draw: Draw) -> list[Instruction]:
    mint = draw.mint()
    on_mint = draw.chance(0.5)
    at = mint.address if on_mint else draw.source(mint)
    kind = (
        draw.rng.choice([0, 0, 1] if on_mint else [2, 2, 3, 3])
        if draw.chance(0.9)
        else (draw.rng.randrange(20))
    )
    new = b"\x00" if draw.chance(0.4) else b"\x01" + bytes(draw.person())
    return [_token(mint, bytes([6, kind]) + new, (at, "w"), *draw.owners(mint, at))]


def other_token(draw: Draw) -> list[Instruction]:
    """Freeze, initialise, harvest, reallocate, and what the programs got later."""
    mint, rng = draw.mint(), draw.rng
    at, who = draw.source(mint), bytes(draw.person())
    to = (draw.rng.choice([draw.world.them, draw.world.own]), "w")
    fee = u64(draw.amount()) + bytes([mint.decimals]) + u64(draw.amount() // 10)
    inner = unchecked(draw)[0]
    return [
        rng.choice(
            [
                _token(mint, b"\x0a", (at, "w"), (mint.address, ""), draw.signer()),
                _token(mint, b"\x0b", (at, "w"), (mint.address, ""), draw.signer()),
                _token(mint, b"\x12" + who, (mint.blank, "w"), (mint.address, "")),
                _token(mint, b"\x16", (mint.blank, "w")),
                _token(mint, b"\x14\x06" + who + b"\x00", (rng.choice(draw.world.fresh), "w")),
                _token(mint, b"\x1a\x01" + fee, (at, "w"), (mint.address, ""),
                       (draw.target(mint), "w"), draw.signer()),
                _token(mint, b"\x26", (at, "w"), to, draw.signer()),
                _token(mint, b"\x2d\x00", (at, "w"), to, draw.signer()),
                _token(mint, b"\x2d\x01" + u64(draw.amount()), (at, "w"), to, draw.signer()),
                _token(mint, b"\x1d" + struct.pack("<H", 8), (at, "w"), (draw.who, "sw"),
                       (SYSTEM, ""), draw.signer()),
                batch_of(inner),
                _token(mint, bytes([rng.randrange(256)]) + rng.randbytes(rng.randrange(12)),
                       (at, "w"), draw.signer()),
            ]
        )
    ]  # fmt: skip


def reclaim(draw: Draw) -> list[Instruction]:
    """Rent beyond what an account needs, and wrapped SOL, to whomever."""
    world, rng = draw.world, draw.rng
    unwraps = draw.chance(0.5)
    mint = rng.choice([world.mints[2], world.mints[6]]) if unwraps else draw.mint()
    at = mint.address if draw.chance(0.1) else draw.source(mint)
    amount = b"\x01" + u64(rng.choice([1, 10**6, 10**9, draw.amount()]))
    data = b"\x2d" + rng.choice([b"\x00", amount]) if unwraps else b"\x26"
    to = rng.choice([world.own, world.own, world.them, draw.person(), draw.target(mint)])
    return [_token(mint, data, (at, "w"), (to, "w"), *draw.owners(mint, at))]


def batched(draw: Draw) -> list[Instruction]:
    """Instructions of one token program in one; sometimes one of lengths that do not add up."""
    rng = draw.rng
    drawn = [one for shape in rng.choices(_BATCHED, k=4) for one in shape(draw)]
    inner = [one for one in drawn if one.program_id == drawn[-1].program_id]
    inner = inner[-rng.choice([1, 2, 2, 3]) :]
    made = batch_of(*inner)
    data = bytearray(made.data)
    if draw.chance(0.1):
        data[rng.randrange(1, len(data))] = rng.choice([0, 1, 3, 9, 255])
    return [Instruction(made.program_id, bytes(data), made.accounts)]


def launch(draw: Draw) -> list[Instruction]:
    """A new mint, with a name of its own or not, its first account, supply, and no authority."""
    rng, who, world = draw.rng, draw.who, draw.world
    program = rng.choice([TOKEN, TOKEN_2022])
    named = program == TOKEN_2022 and draw.chance(0.7)
    space = 234 if named else 82
    lamports = rng.choice([(128 + space) * 6960, (128 + space + 104) * 6960, SOL])
    authority = who if draw.chance(0.8) else draw.person()
    if draw.chance(0.5):
        at, seed = _seeded(draw, program)
        made = _system(3, bytes(who) + seed + u64(lamports) + u64(space) + bytes(program),
                       (who, "sw"), (at, "w"))  # fmt: skip
    else:
        at = rng.choice(world.fresh)
        made = _system(0, u64(lamports) + u64(space) + bytes(program), (who, "sw"), (at, "sw"))
    own = get_associated_token_address(world.own, at, program)
    mint = MintAt(at, program, 6, own, own, own, own, own, own)
    freezer = rng.choice([b"\x00", b"\x01" + bytes(draw.person())])
    steps = [made]
    if named:
        steps.append(_token(mint, b"\x27\x00" + bytes(authority) + bytes(at), (at, "w")))
    steps.append(_token(mint, b"\x14\x06" + bytes(authority) + freezer, (at, "w")))
    if named:
        texts = b"".join(struct.pack("<I", len(text)) + text for text in (b"Coin", b"C", b""))
        head = bytes([210, 225, 30, 162, 88, 184, 77, 141])
        updater = authority if draw.chance(0.8) else draw.person()
        steps.append(
            _token(mint, head + texts, (at, "w"), (updater, ""), (at, ""), (authority, "s"))
        )
    if draw.chance(0.8):
        to = own if draw.chance(0.8) else world.mints[0].theirs
        steps += [
            open_account(draw, mint, world.own),
            _token(mint, b"\x0e" + u64(10**9) + b"\x06", (at, "w"), (to, "w"), (authority, "s")),
        ]
    if draw.chance(0.4):
        steps.append(_token(mint, b"\x06\x00\x00", (at, "w"), (authority, "s")))
    return [one for one in steps if draw.chance(0.97)]


_BATCHED: Final = (assertion, burn, close, reclaim, revoke, set_authority, taxed, unchecked)
"""Shapes that end in an instruction of a token program."""


# Stakes.


def stake_steps(draw: Draw) -> list[Instruction]:
    rng, who, world = draw.rng, draw.who, draw.world
    one, two = rng.sample(world.stakes, 2)
    two = rng.choice([two, two, two, two, rng.choice(world.fresh), draw.any()])
    pair = rng.sample(world.stakes[:2], 2)
    blank = rng.choice([world.stakes[2], world.stakes[2], two])
    lamports, person = (
        u64(rng.choice([draw.lamports(), 2_282_880, 3 * SOL + 2_282_880])),
        draw.person(),
    )
    clock, history = (key(CLOCK), ""), (key(HISTORY), "")
    role = struct.pack("<I", rng.randrange(2))
    to = rng.choice([who, world.own, person, two])
    custodian = [draw.signer()] if draw.chance(0.2) else []
    thief = [(world.them, "s")]
    options = [
        _stake(2, b"", (one, "w"), (world.vote, ""), clock, history, (key(STAKE_CONFIG), ""),
               draw.signer()),
        _stake(5, b"", (one, "w"), clock, draw.signer()),
        _stake(3, u64(rng.choice([SOL, 2 * SOL])), (one, "w"), (blank, "w"), draw.signer()),
        _stake(3, lamports, (one, "w"), (blank, "w"), draw.signer()),
        _stake(4, lamports, (one, "w"), (to, "w"), clock, history, draw.signer(), *custodian),
        _stake(4, lamports, (one, "w"), (who, "w"), clock, history, draw.signer()),
        _stake(4, u64(SOL), (pair[0], "w"), (to, "w"), clock, history, draw.signer()),
        _stake(4, u64(SOL), (world.stakes[3], "w"), (to, "w"), clock, history, draw.signer(),
               draw.signer()),
        _stake(7, b"", (one, "w"), (two, "w"), clock, history, draw.signer()),
        _stake(7, b"", (pair[0], "w"), (pair[1], "w"), clock, history, draw.signer()),
        _stake(rng.choice([16, 17]), u64(SOL), (pair[0], "w"), (pair[1], "w"), draw.signer()),
        _stake(16, lamports, (one, "w"), (two, "w"), draw.signer()),
        _stake(17, lamports, (one, "w"), (two, "w"), draw.signer()),
        _stake(0, bytes(person) * 2 + bytes(48), (one, "w"), (key(RENT), "")),
        _stake(9, b"", (one, "w"), (key(RENT), ""), (person, ""), draw.signer()),
        _stake(1, bytes(person) + role, (one, "w"), clock, draw.signer()),
        _stake(10, role, (one, "w"), clock, draw.signer(), *thief),
        _stake(8, bytes(person) + role + u64(1) + b"x" + bytes(STAKE), (one, "w"), draw.signer(),
               clock),
        _stake(6, b"\x01" + struct.pack("<q", 2**40) + b"\x00\x01" + bytes(person), (one, "w"),
               draw.signer()),
        _stake(12, b"\x01" + struct.pack("<q", 2**40) + b"\x00", (one, "w"), draw.signer(), *thief),
        _stake(13, b""),
        _stake(rng.randrange(20), lamports, (one, "w"), draw.signer()),
    ]  # fmt: skip
    return [rng.choice(options)]


def new_stake(draw: Draw) -> list[Instruction]:
    rng, who = draw.rng, draw.who
    lamports = 2_282_880 + rng.choice([0, SOL, 2 * SOL])
    if draw.chance(0.6):
        at, seed = _seeded(draw, STAKE)
        data = bytes(who) + seed + u64(lamports) + u64(200) + bytes(STAKE)
        made = _system(3, data, (who, "sw"), (at, "w"))
    else:
        at = rng.choice(draw.world.fresh)
        made = _system(0, u64(lamports) + u64(200) + bytes(STAKE), (who, "sw"), (at, "sw"))
    authority = who if draw.chance(0.85) else draw.person()
    lockup = bytes(48) if draw.chance(0.9) else struct.pack("<qQ", 2**40, 0) + bytes(draw.person())
    return [
        made,
        _stake(0, bytes(who) + bytes(authority) + lockup, (at, "w"), (key(RENT), "")),
        _stake(2, b"", (at, "w"), (draw.world.vote, ""), (key(CLOCK), ""), (key(HISTORY), ""),
               (key(STAKE_CONFIG), ""), draw.signer()),
    ]  # fmt: skip


def split_stake(draw: Draw) -> list[Instruction]:
    """Into an account made for it, or into one that was prepared."""
    rng, who = draw.rng, draw.who
    at, one = rng.choice(draw.world.fresh), rng.choice(draw.world.stakes)
    data = u64(2_282_880) + u64(200) + bytes(STAKE)
    made = _system(0, data, (rng.choice([who, draw.world.them]), "sw"), (at, "sw"))
    split = _stake(
        3, u64(rng.choice([SOL, 3 * SOL + 2_282_880])), (one, "w"), (at, "w"), draw.signer()
    )
    return [made, split]


# What stays the wallet's, unless a thief gets between its instructions.


def beset_stake(draw: Draw) -> list[Instruction]:
    rng, own, them = draw.rng, draw.world.own, draw.world.them
    at = (rng.choice(draw.world.fresh), "sw")
    clock, history = (key(CLOCK), ""), (key(HISTORY), "")
    lamports = u64(2_282_880 + rng.choice([0, SOL]))
    made = _system(0, lamports + u64(200) + bytes(STAKE), (own, "sw"), at)
    authorities = rng.choice(
        [bytes(own) * 2] * 4 + [bytes(own) + bytes(them), bytes(them) + bytes(own)]
    )
    lockup = bytes(48) if draw.chance(0.8) else struct.pack("<qQ", 2**40, 0) + bytes(them)
    named = _stake(0, authorities + lockup, at, (key(RENT), ""))
    steps = [made, named, *([_system(2, lamports, (own, "sw"), at)] if draw.chance(0.3) else [])]
    theirs = [
        _stake(0, bytes(them) * 2 + bytes(48), at, (key(RENT), "")),
        _stake(1, bytes(them) + struct.pack("<I", 1), at, clock, (them, "s")),
        _stake(4, lamports, at, (them, "w"), clock, history, (them, "s")),
        _stake(6, b"\x00\x00\x01" + bytes(them), at, (them, "s")),
        _system(0, lamports + u64(200) + bytes(STAKE), (them, "sw"), at),
    ]
    return _between(rng, steps, theirs)


def beset_wrap(draw: Draw) -> list[Instruction]:
    rng, own, them, mint = draw.rng, draw.world.own, draw.world.them, draw.world.mints[2]
    steps = [
        open_account(draw, mint, own, own),
        _system(2, u64(draw.lamports()), (own, "sw"), (mint.own, "w")),
        _token(mint, b"\x11", (mint.own, "w")),
    ]
    if draw.chance(0.1):
        del steps[0]
    theirs = [
        open_account(draw, mint, own, them),
        open_account(draw, mint, them, them),
        transfer_checked(replace(draw, who=them), mint, mint.own, mint.theirs),
        _token(mint, b"\x09", (mint.own, "w"), (them, "w"), (them, "s")),
        _token(mint, b"\x06\x02\x01" + bytes(own), (mint.own, "w"), (them, "s")),
        _token(mint, b"\x06\x03\x01" + bytes(them), (mint.own, "w"), (them, "s")),
    ]
    return _between(rng, steps, theirs)


def _between(
    rng: random.Random, steps: list[Instruction], others: Sequence[Instruction]
) -> list[Instruction]:
    for one in rng.sample(others, rng.choice([0, 1, 1, 2])):
        steps.insert(rng.randrange(len(steps) + 1), one)
    return steps


# All the rest.


def budget(draw: Draw) -> list[Instruction]:
    rng = draw.rng
    price = rng.choice([0, 1, 999, 10**5, rng.randrange(5 * 10**6)])
    limit = rng.choice([100_000, 200_000, 1_400_000, rng.randrange(2**21), 2**32 - 1])
    options = [b"\x02" + struct.pack("<I", limit), b"\x03" + u64(price)]
    if draw.chance(0.1):
        heap, loaded = struct.pack("<I", 2**16), struct.pack("<I", 2**25)
        options = [rng.choice([b"\x01" + heap, b"\x04" + loaded, *options])]
    return [call(COMPUTE_BUDGET_PROGRAM, data) for data in options]


def memo(draw: Draw) -> list[Instruction]:
    signers = [draw.signer()] if draw.chance(0.4) else []
    return [call(MEMO_PROGRAM, b"memo", *signers)]


_SIGNED: Final = 112


def precompile(draw: Draw) -> list[Instruction]:
    """Signatures of messages, each of which the network charges for."""
    count = draw.rng.choice([0, 1, 3, 8])
    start = 2 + 14 * count
    place = struct.pack("<HHHHHHH", start + 32, 0xFFFF, start, 0xFFFF, start + 96, 2, 0xFFFF)
    return [call(ED25519_PROGRAM, bytes([count, 0]) + place * count + _signed_text())]


def _signed_text() -> bytes:
    signer: Keypair = keypair("thief")
    return bytes(signer.pubkey()) + bytes(signer.sign_message(b"hi")) + b"hi"


def hostile(draw: Draw) -> list[Instruction]:
    """A program that takes all it can by the signatures it is given, or names the wallet itself."""
    world, rng, mint = draw.world, draw.rng, draw.mint()
    signs = draw.chance(0.8)
    source, target = draw.source(mint), rng.choice([mint.theirs, mint.lent])
    apart = {world.own, world.them, source, target}
    drawn = rng.sample(sorted(set(world.pool) - apart, key=bytes), rng.randrange(3))
    others = [AccountMeta(address, is_signer=False, is_writable=True) for address in drawn]
    return [
        rng.choice(
            [
                take_lamports(draw.who, world.stranger, signs=signs),
                take_lamports(draw.who, world.them, signs=signs, others=others),
                take_tokens(draw.who, source, target, signs=signs, program=mint.program),
                take_tokens(draw.who, source, target, program=mint.program, others=others),
                name_victim(world.own, world.them, SOL, others=others),
                name_owner(world.own, source, target, others=others),
            ]
        )
    ]


Shape: TypeAlias = Callable[[Draw], list[Instruction]]

SHAPES: Final[tuple[tuple[Shape, int], ...]] = (
    (pay, 10), (create_account, 3), (with_seed, 5), (assign, 2), (nonce, 5), (open_accounts, 6),
    (recover_nested, 1), (send, 14), (collect, 14), (assertion, 4), (wrap, 6), (close, 8),
    (unchecked, 7), (burn, 4), (mint_to, 7), (revoke, 3), (set_authority, 6), (other_token, 6),
    (launch, 5), (stake_steps, 18), (new_stake, 4), (split_stake, 3), (budget, 6), (memo, 3),
    (precompile, 2), (hostile, 6), (taxed, 2), (reclaim, 6), (batched, 6),
)  # fmt: skip
# What the thief does while a message waits: his own accounts change hands or vanish.
_FRONT: Final[tuple[Shape, ...]] = (set_authority, close, send, open_accounts, pay, create_account,
                                   stake_steps, other_token, new_stake, with_seed,
                                   reclaim)  # fmt: skip


BESET: Final[tuple[tuple[Shape, int], ...]] = (
    (beset_stake, 6), (beset_wrap, 6), (new_stake, 1), (wrap, 2), (stake_steps, 1), (pay, 1),
    (close, 1), (send, 1),
)  # fmt: skip


def generate(
    world: World,
    rng: random.Random,
    shapes: Sequence[tuple[Shape, int]] = SHAPES,
    v1: float = 0.3,
) -> Case:
    """`v1` is the share of messages of version 1."""
    steps: list[Instruction] = []
    drawn, weights = [shape for shape, _ in shapes], [weight for _, weight in shapes]
    signers = [world.own] * 4 + [world.them]
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        draw = Draw(world, rng, rng.choice(signers))
        steps += rng.choices(drawn, weights)[0](draw)
    if rng.random() < 0.1:
        rng.shuffle(steps)
    steps = steps[:MAX_INSTRUCTIONS] or memo(Draw(world, rng, world.own))
    if rng.random() < 0.35:
        for _ in range(rng.choice([1, 1, 2])):
            at = rng.randrange(len(steps))
            steps[at] = mutate(world, rng, steps[at])
    signable = world.keys
    steps = [_signable(one, signable) for one in steps]
    payer = world.own if rng.random() < 0.85 else world.them
    fronts = tuple(_front(world, rng) for _ in range(rng.choice([0, 0, 0, 1, 2])))
    claimed, held = (None, ())
    if rng.random() < 0.2:
        claimed, held = _table(world, rng, steps)
    config = _config(rng) if rng.random() < v1 else None
    if config is not None:
        # Version 1 has no lookup tables.
        claimed, held = (None, ())
    legacy = not (claimed or config) and rng.random() < 0.5
    return Case(payer, tuple(steps), legacy, config, claimed, held, fronts, rng.getrandbits(32))


def _config(rng: random.Random) -> TransactionConfig:
    """What is not set is 0 on a cluster, and the VM's default here."""
    return TransactionConfig(
        priority_fee=rng.choice([None, 0, 1, rng.randrange(10**5), rng.randrange(SOL)]),
        compute_unit_limit=rng.choice([None, *[1_400_000] * 15]),
        loaded_accounts_data_size_limit=rng.choice([None, *[64 << 20] * 15]),
        heap_size=rng.choice([None, 32 << 10, 256 << 10]),
    )


def mutate(world: World, rng: random.Random, one: Instruction) -> Instruction:
    """Another account, flag, length or byte."""
    metas, data = list(one.accounts), bytearray(one.data)
    kind = rng.randrange(8)
    where = rng.randrange(len(metas)) if metas else 0
    if kind <= 2 and metas:
        old = metas[where]
        new = rng.choice([world.own, rng.choice(world.pool), rng.choice(metas).pubkey])
        metas[where] = AccountMeta(new, old.is_signer, old.is_writable)
    elif kind == 3 and metas:
        del metas[where]
    elif kind == 4:
        address = rng.choice([world.own, world.them, rng.choice(world.pool)])
        metas.insert(rng.randrange(len(metas) + 1), AccountMeta(address, rng.random() < 0.5, True))
    elif kind == 5 and len(data) > 0:
        data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 255, rng.randrange(256)])
    elif kind == 6:
        data = data[: rng.randrange(len(data) + 1)]
    else:
        data += rng.randbytes(rng.randrange(1, 9))
    program = one.program_id
    if rng.random() < 0.05 and program in (TOKEN, TOKEN_2022):
        program = TOKEN if program == TOKEN_2022 else TOKEN_2022
    return Instruction(program, bytes(data), metas)


def _signable(one: Instruction, keys: object) -> Instruction:
    metas = [
        AccountMeta(meta.pubkey, meta.is_signer and meta.pubkey in keys, meta.is_writable)  # type: ignore[operator]
        for meta in one.accounts
    ]
    return Instruction(one.program_id, bytes(one.data), metas)


def _front(world: World, rng: random.Random) -> tuple[Instruction, ...]:
    steps = rng.choice(_FRONT)(Draw(world, rng, world.them))
    return tuple(
        _signable(one, {address for address in world.keys if address != world.own}) for one in steps
    )


def _table(
    world: World, rng: random.Random, steps: Sequence[Instruction]
) -> tuple[tuple[Pubkey, ...] | None, tuple[Pubkey, ...]]:
    """What the lookup table is said to hold, and what it holds: often something else."""
    signers = {meta.pubkey for one in steps for meta in one.accounts if meta.is_signer}
    used = {meta.pubkey for one in steps for meta in one.accounts} - signers
    named = [mint for mint in world.mints if mint.address in used]
    if named and rng.random() < 0.5:
        one, claimed = rng.choice(named), sorted(used, key=bytes)
        other = rng.choice([mint for mint in world.mints if mint.program == one.program])
        return tuple(claimed), tuple(_of_other(address, one, other) for address in claimed)
    claimed = [address for address in sorted(used, key=bytes) if rng.random() < 0.7]
    if not claimed:
        return None, ()
    held = list(claimed)
    for at, address in enumerate(claimed):
        if rng.random() < 0.3:
            held[at] = _stand_in(world, rng, address)
    return tuple(claimed), tuple(held)


def _of_other(address: Pubkey, one: MintAt, other: MintAt) -> Pubkey:
    """The same role with another mint, so that the whole transfer still fits together."""
    pairs = zip((one.address, *one.accounts), (other.address, *other.accounts), strict=True)
    return dict(pairs).get(address, address)


def _stand_in(world: World, rng: random.Random, address: Pubkey) -> Pubkey:
    for mint in world.mints:
        if address in mint.accounts:
            return rng.choice([mint.theirs, *mint.accounts])
        if address == mint.address:
            return rng.choice(world.mints).address
    return rng.choice([rng.choice(world.pool), world.them])
