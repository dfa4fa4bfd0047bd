"""The demo market's program: a constant product market maker with one instruction, `swap`.

Accounts of `swap`, none of them twice:

    0      the token program
    1      the user, who signs for the source account
    2      the user's source token account
    3      the destination token account, anybody's
    4      the authority of all vaults, derived from this program
    5 6 7  a pool, its vault that is paid, its vault that pays
    8 9 10 for two hops: the pool that takes what the first one pays, and its two vaults

Data: the byte 1, the amount in, the least amount out; both unsigned, 64 bits. A pool is an account
of this program that holds the addresses of its two vaults; the reserves are what the vaults hold.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM

from solward.solana.accounts import most_rent

# The pools' fee, which stays in their reserves, in basis points.
FEE_BPS = 30

INVALID_INSTRUCTION = 6000
SLIPPAGE_EXCEEDED = 6001
"""Less than the least amount out; Jupiter's program has the same number for it."""
INVALID_ACCOUNTS = 6002

POOL_BYTES = 64
_LOADER = Pubkey.from_string("BPFLoader2111111111111111111111111111111111")
SWAP = 1
"""The first byte of the instruction's data."""
AUTHORITY_SEED = b"authority"
FILE = Path(__file__).with_name("market_program.elf")
_SHA256 = "f4e92900146219108e6f7f644179b7a66183e664fc77ae7d62ba2790392bd50d"


def seeded(name: str) -> Keypair:
    """The key every localnet has under this name."""
    return Keypair.from_seed(hashlib.sha256(f"solward localnet {name}".encode()).digest())


MARKET_PROGRAM = seeded("market program").pubkey()
AUTHORITY, BUMP = Pubkey.find_program_address([AUTHORITY_SEED], MARKET_PROGRAM)


def swap_instruction(
    user: Pubkey,
    source: Pubkey,
    destination: Pubkey,
    hops: Sequence[tuple[Pubkey, Pubkey, Pubkey]],
    amount_in: int,
    minimum_out: int,
) -> Instruction:
    """The program's instruction; a hop is a pool, its vault that is paid, its vault that pays."""
    fixed = [
        AccountMeta(TOKEN_PROGRAM, is_signer=False, is_writable=False),
        AccountMeta(user, is_signer=True, is_writable=False),
        AccountMeta(source, is_signer=False, is_writable=True),
        AccountMeta(destination, is_signer=False, is_writable=True),
        AccountMeta(AUTHORITY, is_signer=False, is_writable=False),
    ]
    pools = [
        AccountMeta(key, is_signer=False, is_writable=index > 0)
        for hop in hops
        for index, key in enumerate(hop)
    ]
    data = struct.pack("<BQQ", SWAP, amount_in, minimum_out)
    return Instruction(MARKET_PROGRAM, data, [*fixed, *pools])


@cache
def program_file() -> bytes:
    """The program; `tests/market_source.py` has its source, and writes this file.

    Raises:
        ValueError: the file is another one.
    """
    file = FILE.read_bytes()
    if hashlib.sha256(file).hexdigest() != _SHA256:
        raise ValueError(f"{FILE} is not the market's program")
    return file


def program_account(file: bytes) -> Account:
    """A program as one account that nobody can change."""
    return Account(most_rent(len(file)), file, _LOADER, executable=True)
