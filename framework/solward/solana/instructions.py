"""Discriminators of the instructions that Solward reads or makes; each stands here only.

Sources: solana-system-interface and solana-stake-interface (u32, little endian),
spl-token-interface and spl-token-2022-interface (one byte, extensions two),
spl-token-metadata-interface (eight bytes), spl-associated-token-account-interface.

`spl.token` makes the instructions. Its tables of numbers are private, and importing it builds
models with pydantic, which a plugin host does not have.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


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
    WITHDRAW_EXCESS_LAMPORTS = 38
    METADATA_POINTER_EXTENSION = 39
    UNWRAP_LAMPORTS = 45
    BATCH = 255


TOKEN_TRANSFER_CHECKED_WITH_FEE: Final = bytes([Token.TRANSFER_FEE_EXTENSION, 1])
# Of what accounts of a mint withheld, to the mint; anybody may, and nobody's balance changes.
TOKEN_HARVEST_WITHHELD_TO_MINT: Final = bytes([Token.TRANSFER_FEE_EXTENSION, 4])
# All that a wrapped SOL account holds; or the lamports that follow, a u64.
TOKEN_UNWRAP_ALL: Final = bytes([Token.UNWRAP_LAMPORTS, 0])
TOKEN_UNWRAP_SOME: Final = bytes([Token.UNWRAP_LAMPORTS, 1])
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
