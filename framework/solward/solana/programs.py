"""Addresses of Solana's programs, sysvars and native mints, as base58 text, each defined once.

This module imports only the standard library, so that command line and dashboard can use it.
"""

from __future__ import annotations

from typing import Final

SYSTEM_PROGRAM: Final = "11111111111111111111111111111111"
COMPUTE_BUDGET_PROGRAM: Final = "ComputeBudget111111111111111111111111111111"
TOKEN_PROGRAM: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"  # noqa: S105
TOKEN_2022_PROGRAM: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"  # noqa: S105
ASSOCIATED_TOKEN_PROGRAM: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"  # noqa: S105
STAKE_PROGRAM: Final = "Stake11111111111111111111111111111111111111"
VOTE_PROGRAM: Final = "Vote111111111111111111111111111111111111111"
MEMO_PROGRAM: Final = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
MEMO_V1_PROGRAM: Final = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"
LOOKUP_TABLE_PROGRAM: Final = "AddressLookupTab1e1111111111111111111111111"
ED25519_PROGRAM: Final = "Ed25519SigVerify111111111111111111111111111"
SECP256K1_PROGRAM: Final = "KeccakSecp256k11111111111111111111111111111"
SECP256R1_PROGRAM: Final = "Secp256r1SigVerify1111111111111111111111111"

# The owners of programs and of their code.
LOADERS: Final = frozenset(
    {
        "NativeLoader1111111111111111111111111111111",
        "BPFLoader1111111111111111111111111111111111",
        "BPFLoader2111111111111111111111111111111111",
        "BPFLoaderUpgradeab1e11111111111111111111111",
        "LoaderV411111111111111111111111111111111111",
    }
)

# The runtime destroys the SOL in this account.
INCINERATOR: Final = "1nc1nerator11111111111111111111111111111111"

# The owner of every sysvar account.
SYSVAR_PROGRAM: Final = "Sysvar1111111111111111111111111111111111111"
CLOCK_SYSVAR: Final = "SysvarC1ock11111111111111111111111111111111"
RENT_SYSVAR: Final = "SysvarRent111111111111111111111111111111111"
EPOCH_SCHEDULE_SYSVAR: Final = "SysvarEpochSchedu1e111111111111111111111111"
STAKE_HISTORY_SYSVAR: Final = "SysvarStakeHistory1111111111111111111111111"
# The Stake program no longer reads this account, but its instructions still list it.
STAKE_CONFIG: Final = "StakeConfig11111111111111111111111111111111"

# The mint of wrapped SOL: its token accounts have their amount in lamports.
WRAPPED_SOL_MINT: Final = "So11111111111111111111111111111111111111112"
TOKEN_2022_WRAPPED_SOL_MINT: Final = "9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9"  # noqa: S105

# USDC of the embedded ledger's demo market (`solward_localnet.market` derives the same, tested).
LOCALNET_USDC_MINT: Final = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"

TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
MEMO_PROGRAMS: Final = frozenset({MEMO_PROGRAM, MEMO_V1_PROGRAM})
PRECOMPILES: Final = frozenset({ED25519_PROGRAM, SECP256K1_PROGRAM, SECP256R1_PROGRAM})

PROGRAM_NAMES: Final = {
    SYSTEM_PROGRAM: "System",
    COMPUTE_BUDGET_PROGRAM: "Compute Budget",
    TOKEN_PROGRAM: "SPL Token",
    TOKEN_2022_PROGRAM: "Token-2022",
    ASSOCIATED_TOKEN_PROGRAM: "Associated Token",
    STAKE_PROGRAM: "Stake",
    VOTE_PROGRAM: "Vote",
    MEMO_PROGRAM: "Memo",
    MEMO_V1_PROGRAM: "Memo v1",
    LOOKUP_TABLE_PROGRAM: "Address Lookup Table",
}
