"""The router of Jupiter (v6) as instructions, packed by its published IDL, over pools of Raydium's
constant product program."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from spl.token.constants import TOKEN_PROGRAM_ID
from tests.support.raydium import CPMM, CpmmPool, held

JUPITER = Pubkey.from_string("JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4")
EVENTS, _ = Pubkey.find_program_address([b"__event_authority"], JUPITER)
SHARED_ID = 3
SHARED, _ = Pubkey.find_program_address([b"authority", bytes([SHARED_ID])], JUPITER)

# Of the IDL's enum `Swap`.
_RAYDIUM_CP = 46


@dataclass(frozen=True)
class Hop:
    """A pool and what is sold to it."""

    pool: CpmmPool
    sold: Pubkey

    @property
    def bought(self) -> Pubkey:
        one, other = self.pool.mints
        return other if self.sold == one else one

    @property
    def first(self) -> bool:
        """Whether the pool's first mint is sold."""
        return self.sold == self.pool.mints[0]

    def accounts(self, owner: Pubkey, source: Pubkey, destination: Pubkey) -> list[AccountMeta]:
        """What the router passes on, the pool's program first."""
        pool, sides = self.pool, (0, 1) if self.first else (1, 0)
        return [
            _read(CPMM),
            _read(owner),
            _read(pool.authority),
            _read(pool.config),
            _write(pool.address),
            _write(source),
            _write(destination),
            *(_write(pool.vaults[side]) for side in sides),
            *(_read(pool.programs[side]) for side in sides),
            *(_read(pool.mints[side]) for side in sides),
            _write(pool.observation),
        ]


def shared_accounts(mints: Sequence[Pubkey]) -> dict[Pubkey, Account]:
    """The router's own token accounts, of which `shared_accounts_route` uses one for each mint."""
    return {get_associated_token_address(SHARED, mint): held(mint, SHARED, 0) for mint in mints}


def route(
    hops: Sequence[Hop],
    taker: Pubkey,
    destination: Pubkey,
    amount: int,
    quoted: int,
    slippage_bps: int,
    *,
    delivers: bool = False,
) -> Instruction:
    """`route`: intermediate tokens pass through the taker's own accounts.

    Args:
        delivers: by `destination_token_account`, else `destination` is the taker's account of what
            is bought.
    """
    source = get_associated_token_address(taker, hops[0].sold)
    own = get_associated_token_address(taker, hops[-1].bought)
    accounts = [
        _read(TOKEN_PROGRAM_ID),
        AccountMeta(taker, True, False),
        _write(source),
        _write(own if delivers else destination),
        _write(destination) if delivers else _read(JUPITER),
        _read(hops[-1].bought),
        _read(JUPITER),
        _read(EVENTS),
        _read(JUPITER),
        *_of_hops(hops, taker, source, own if delivers else destination),
    ]
    return Instruction(JUPITER, _data("route", b"", hops, amount, quoted, slippage_bps), accounts)


def shared_route(
    hops: Sequence[Hop],
    taker: Pubkey,
    destination: Pubkey,
    amount: int,
    quoted: int,
    slippage_bps: int,
) -> Instruction:
    """`shared_accounts_route`: everything passes through the router's own accounts."""
    source, target = (
        get_associated_token_address(SHARED, mint) for mint in (hops[0].sold, hops[-1].bought)
    )
    accounts = [
        _read(TOKEN_PROGRAM_ID),
        _read(SHARED),
        AccountMeta(taker, True, False),
        _write(get_associated_token_address(taker, hops[0].sold)),
        _write(source),
        _write(target),
        _write(destination),
        _read(hops[0].sold),
        _read(hops[-1].bought),
        _read(JUPITER),
        _read(JUPITER),
        _read(EVENTS),
        _read(JUPITER),
        *_of_hops(hops, SHARED, source, target),
    ]
    data = _data("shared_accounts_route", bytes([SHARED_ID]), hops, amount, quoted, slippage_bps)
    return Instruction(JUPITER, data, accounts)


def _of_hops(
    hops: Sequence[Hop], owner: Pubkey, source: Pubkey, target: Pubkey
) -> list[AccountMeta]:
    found: list[AccountMeta] = []
    for at, hop in enumerate(hops):
        last = at == len(hops) - 1
        paid = source if at == 0 else get_associated_token_address(owner, hop.sold)
        to = target if last else get_associated_token_address(owner, hop.bought)
        found += hop.accounts(owner, paid, to)
    return found


def _data(
    name: str, more: bytes, hops: Sequence[Hop], amount: int, quoted: int, slippage_bps: int
) -> bytes:
    # Of each all that came before goes on.
    steps = b"".join(bytes([_RAYDIUM_CP, 100, at, at + 1]) for at in range(len(hops)))
    return (
        hashlib.sha256(f"global:{name}".encode()).digest()[:8]
        + more
        + struct.pack("<I", len(hops))
        + steps
        + struct.pack("<QQHB", amount, quoted, slippage_bps, 0)
    )


def _read(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=False)


def _write(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=True)
