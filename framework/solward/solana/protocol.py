"""Constants of the protocol: its numbers, the public clusters, and the discriminators of the
instructions that Solward reads or makes. It imports only the standard library, so that settings,
command line, dashboard and plugin hosts can use it.

Sources of the discriminators: solana-system-interface and solana-stake-interface (u32, little
endian), spl-token-interface and spl-token-2022-interface (one byte, extensions two),
spl-token-metadata-interface (eight bytes), spl-associated-token-account-interface. `spl.token`
makes the instructions; its tables of numbers are private, and importing it builds models with
pydantic, which a plugin host does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

LAMPORTS_PER_SIGNATURE: Final = 5_000
DEFAULT_MAX_NETWORK_FEE: Final = 1_000_000
"""Maximum network fee of one transaction in lamports, unless a setting changes it."""
MAX_WIRE_BYTES: Final = 1_232
"""Maximum bytes of a legacy transaction, or of a transaction of version 0: one packet."""
MAX_V1_WIRE_BYTES: Final = 4_096
"""Maximum bytes of a transaction of version 1 (SIMD-0385), the largest of all versions."""
MAX_V1_ADDRESSES: Final = 64
"""Maximum number of addresses in a transaction of version 1."""
MAX_V1_INSTRUCTIONS: Final = 64
"""Maximum number of instructions in a transaction of version 1."""
MAX_COMPUTE_UNITS: Final = 1_400_000
"""Maximum compute units of one transaction."""
MAX_LOADED_BYTES: Final = 64 << 20
"""Maximum bytes of the accounts that one transaction may load."""
BLOCKHASH_BLOCKS: Final = 150
"""Number of blocks in which a transaction with a blockhash can land: Agave's `MAX_PROCESSING_AGE`.
The time of a block depends on the cluster (`solward.vault.ledger.protocol`)."""
LEAST_SLOT_MS: Final = 100
MOST_SLOT_MS: Final = 1_000
"""Bounds of a slot's assumed duration, because a node's false value would make Solward poll without
pause or use plans that are too old."""
UNMEASURED_SLOT_MS: Final = 200
"""Assumed duration of a slot until it is measured: the target of mainnet's feature gates."""
MOST_RENT_PER_BYTE: Final = 6_960
"""Lamports of rent per byte in the bounds of every cluster: the maximum of SIMD-0437, which
SIMD-0438 may restore. If a node requires more, nothing that pays rent is signed."""
RENT_OVERHEAD_BYTES: Final = 128
"""Bytes for which an account pays rent in addition to its data."""
LOCALNET_RENT_PER_BYTE: Final = 5_080
"""A new localnet's default lamports of rent per byte: mainnet's rent in November 2026."""
MAX_LOCALNET_RENT_PER_BYTE: Final = 1_000_000
"""The maximum lamports of rent per byte that a localnet can be set to."""


def rent_of(size: int, per_byte: int) -> int:
    """Return the lamports that an account of `size` data bytes needs at `per_byte` a byte."""
    return (size + RENT_OVERHEAD_BYTES) * per_byte


# With a node of another cluster, amounts would be checked against the wrong money.
GENESIS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mainnet-beta": "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
        "devnet": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
        "testnet": "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
    }
)
"""Network -> its genesis hash, base58."""


def chain_id(genesis: str) -> str:
    """Return the CAIP-2 id of the ledger with this genesis hash."""
    return f"solana:{genesis[:32]}"


CHAIN_IDS: Final[Mapping[str, str]] = MappingProxyType(
    {name: chain_id(genesis) for name, genesis in GENESIS.items()}
)
"""Network -> its CAIP-2 id."""


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
# Moves fees that a mint's accounts withheld to the mint. Anybody may; no balance changes.
TOKEN_HARVEST_WITHHELD_TO_MINT: Final = bytes([Token.TRANSFER_FEE_EXTENSION, 4])
# Unwrap the whole wrapped SOL account; or only the lamports that follow, a u64.
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
