"""Discriminators of the instructions that Solward reads or makes; each stands here only.

Sources: solana-system-interface and solana-stake-interface (u32, little endian),
spl-token-interface and spl-token-2022-interface (one byte, extensions two),
spl-token-metadata-interface (eight bytes), spl-associated-token-account-interface.

Instructions of the token programs and of the Associated Token program, pure.

Those that Solward makes, in the programs' own layout. The library for it (`spl`) validates each
instruction's parameters by models whose making was a seventh of a service's start.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from solward.solana.programs import ASSOCIATED_TOKEN_PROGRAM, SYSTEM_PROGRAM


class System(IntEnum):
    """Instructions of the System program."""

    CREATE_ACCOUNT = 0
    ASSIGN = 1
    TRANSFER = 2
    CREATE_ACCOUNT_WITH_SEED = 3
    ADVANCE_NONCE = 4
    WITHDRAW_NONCE = 5
    INITIALIZE_NONCE = 6
    AUTHORIZE_NONCE = 7
    ALLOCATE = 8
    ALLOCATE_WITH_SEED = 9
    ASSIGN_WITH_SEED = 10
    TRANSFER_WITH_SEED = 11
    CREATE_ACCOUNT_ALLOW_PREFUND = 13


class Token(IntEnum):
    """Instructions of SPL Token and Token-2022."""

    INITIALIZE_ACCOUNT = 1
    TRANSFER = 3
    APPROVE = 4
    REVOKE = 5
    SET_AUTHORITY = 6
    MINT_TO = 7
    BURN = 8
    CLOSE_ACCOUNT = 9
    FREEZE_ACCOUNT = 10
    THAW_ACCOUNT = 11
    TRANSFER_CHECKED = 12
    APPROVE_CHECKED = 13
    MINT_TO_CHECKED = 14
    BURN_CHECKED = 15
    INITIALIZE_ACCOUNT_2 = 16
    SYNC_NATIVE = 17
    INITIALIZE_ACCOUNT_3 = 18
    INITIALIZE_MINT_2 = 20
    TRANSFER_FEE_EXTENSION = 26
    METADATA_POINTER_EXTENSION = 39
    BATCH = 255


TOKEN_TRANSFER_CHECKED_WITH_FEE: Final = bytes([Token.TRANSFER_FEE_EXTENSION, 1])
# Of what accounts of a mint withheld, to the mint; anybody may, and nobody's balance changes.
TOKEN_HARVEST_WITHHELD_TO_MINT: Final = bytes([Token.TRANSFER_FEE_EXTENSION, 4])
TOKEN_METADATA_POINTER_INITIALIZE: Final = bytes([Token.METADATA_POINTER_EXTENSION, 0])
TOKEN_METADATA_INITIALIZE: Final = bytes((210, 225, 30, 162, 88, 184, 77, 141))

# The `AuthorityType` of SetAuthority -> what Solward calls it.
TOKEN_AUTHORITIES: Final = {
    0: "mint_authority",
    1: "freeze_authority",
    2: "owner",
    3: "close_authority",
}


class Stake(IntEnum):
    """Instructions of the Stake program."""

    INITIALIZE = 0
    AUTHORIZE = 1
    DELEGATE = 2
    SPLIT = 3
    WITHDRAW = 4
    DEACTIVATE = 5
    SET_LOCKUP = 6
    MERGE = 7
    AUTHORIZE_WITH_SEED = 8
    INITIALIZE_CHECKED = 9
    AUTHORIZE_CHECKED = 10
    AUTHORIZE_CHECKED_WITH_SEED = 11
    SET_LOCKUP_CHECKED = 12
    GET_MINIMUM_DELEGATION = 13
    DEACTIVATE_DELINQUENT = 14
    MOVE_STAKE = 16
    MOVE_LAMPORTS = 17


# Associated Token: Create (no data, or 0) and CreateIdempotent; 2, RecoverNested, closes accounts.
ASSOCIATED_TOKEN_CREATE: Final = frozenset({b"", b"\x00"})
ASSOCIATED_TOKEN_CREATE_IDEMPOTENT: Final = b"\x01"
ASSOCIATED_TOKEN_CREATIONS: Final = ASSOCIATED_TOKEN_CREATE | {ASSOCIATED_TOKEN_CREATE_IDEMPOTENT}


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
