"""Instructions of the token programs and of the Associated Token program, pure.

Those that Solward makes, in the programs' own layout. The library for it (`spl`) validates each
instruction's parameters by models whose making was a seventh of a service's start.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from solward.solana.instructions import (
    ASSOCIATED_TOKEN_CREATE_IDEMPOTENT,
    TOKEN_HARVEST_WITHHELD_TO_MINT,
    Token,
)
from solward.solana.programs import ASSOCIATED_TOKEN_PROGRAM, SYSTEM_PROGRAM

_ASSOCIATED: Final = Pubkey.from_string(ASSOCIATED_TOKEN_PROGRAM)
_SYSTEM: Final = Pubkey.from_string(SYSTEM_PROGRAM)
# An amount of units and the mint's decimals, after the instruction's number.
_CHECKED: Final = struct.Struct("<BQB")
_CLOSE: Final = bytes([Token.CLOSE_ACCOUNT])
_SYNC: Final = bytes([Token.SYNC_NATIVE])


def create_associated(payer: Pubkey, owner: Pubkey, mint: Pubkey, program: Pubkey) -> Instruction:
    """Open the associated account of `owner` at `payer`'s cost, or check that it is its own."""
    accounts = [
        AccountMeta(payer, is_signer=True, is_writable=True),
        _written(get_associated_token_address(owner, mint, program)),
        _read(owner),
        _read(mint),
        _read(_SYSTEM),
        _read(program),
    ]
    return Instruction(_ASSOCIATED, ASSOCIATED_TOKEN_CREATE_IDEMPOTENT, accounts)


def transfer_checked(
    program: Pubkey,
    source: Pubkey,
    mint: Pubkey,
    target: Pubkey,
    owner: Pubkey,
    units: int,
    decimals: int,
) -> Instruction:
    """Move units between two accounts of a mint, which `owner` of the first signs."""
    accounts = [_written(source), _read(mint), _written(target), _signs(owner)]
    return Instruction(program, _CHECKED.pack(Token.TRANSFER_CHECKED, units, decimals), accounts)


def mint_to_checked(
    program: Pubkey, mint: Pubkey, account: Pubkey, authority: Pubkey, units: int, decimals: int
) -> Instruction:
    """Make new units in an account, which the mint authority signs."""
    accounts = [_written(mint), _written(account), _signs(authority)]
    return Instruction(program, _CHECKED.pack(Token.MINT_TO_CHECKED, units, decimals), accounts)


def burn_checked(
    program: Pubkey, account: Pubkey, mint: Pubkey, owner: Pubkey, units: int, decimals: int
) -> Instruction:
    """Destroy units of an account, which its owner signs."""
    accounts = [_written(account), _written(mint), _signs(owner)]
    return Instruction(program, _CHECKED.pack(Token.BURN_CHECKED, units, decimals), accounts)


def close_account(program: Pubkey, account: Pubkey, target: Pubkey, owner: Pubkey) -> Instruction:
    """Close an account, which its owner signs; its lamports go to `target`."""
    return Instruction(program, _CLOSE, [_written(account), _written(target), _signs(owner)])


def sync_native(program: Pubkey, account: Pubkey) -> Instruction:
    """Count the lamports that an account of wrapped SOL was sent as its units."""
    return Instruction(program, _SYNC, [_written(account)])


def revoke_authority(program: Pubkey, mint: Pubkey, kind: int, holder: Pubkey) -> Instruction:
    """Give up an authority of a mint for ever, which its holder signs.

    Args:
        kind: the program's number of the authority (`TOKEN_AUTHORITIES`).
    """
    # No new authority: the option is 0, and 32 bytes that count for nothing follow it.
    data = bytes([Token.SET_AUTHORITY, kind, 0]) + bytes(32)
    return Instruction(program, data, [_written(mint), _signs(holder)])


def initialize_mint(
    program: Pubkey, mint: Pubkey, decimals: int, mint_authority: Pubkey, freeze_authority: Pubkey
) -> Instruction:
    """Make a mint of an account that was created for it in the same transaction."""
    head = bytes([Token.INITIALIZE_MINT_2, decimals])
    data = head + bytes(mint_authority) + b"\x01" + bytes(freeze_authority)
    return Instruction(program, data, [_written(mint)])


def harvest_withheld(program: Pubkey, mint: Pubkey, sources: Sequence[Pubkey]) -> Instruction:
    """Move the fees that transfers withheld in these accounts to the mint."""
    accounts = [_written(mint), *map(_written, sources)]
    return Instruction(program, TOKEN_HARVEST_WITHHELD_TO_MINT, accounts)


def _read(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=False)


def _written(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=True)


def _signs(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=True, is_writable=False)
