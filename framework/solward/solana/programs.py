"""Program ids the guardrails know, as base58 text, and the ones allowed without being named."""

from __future__ import annotations

from typing import Final

SYSTEM: Final = "11111111111111111111111111111111"
COMPUTE_BUDGET: Final = "ComputeBudget111111111111111111111111111111"
# SPL Token, Token-2022 and Associated Token, by the names their ids begin with.
TOKENKEG: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKENZ: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ATOKEN: Final = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
STAKE: Final = "Stake11111111111111111111111111111111111111"
VOTE: Final = "Vote111111111111111111111111111111111111111"
MEMO: Final = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
MEMO_V1: Final = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"
LOOKUP_TABLE: Final = "AddressLookupTab1e1111111111111111111111111"
ED25519: Final = "Ed25519SigVerify111111111111111111111111111"
SECP256K1: Final = "KeccakSecp256k11111111111111111111111111111"
SECP256R1: Final = "Secp256r1SigVerify1111111111111111111111111"

# As people call them, in refusals.
PROGRAM_NAMES: Final = {
    SYSTEM: "System",
    COMPUTE_BUDGET: "Compute Budget",
    TOKENKEG: "SPL Token",
    TOKENZ: "Token-2022",
    ATOKEN: "Associated Token",
    STAKE: "Stake",
    VOTE: "Vote",
    MEMO: "Memo",
    MEMO_V1: "Memo v1",
    LOOKUP_TABLE: "Address Lookup Table",
}

# The mint of wrapped SOL: a token account of it holds its amount in lamports.
WRAPPED_SOL: Final = "So11111111111111111111111111111111111111112"

TOKEN_PROGRAMS: Final = frozenset({TOKENKEG, TOKENZ})
PRECOMPILES: Final = frozenset({ED25519, SECP256K1, SECP256R1})

# Every program here has a decoder that refuses instructions it does not know. Vote and Address
# Lookup Table are left out: no operation of a wallet needs them, and both hand out authorities.
DEFAULT_PROGRAMS: Final = frozenset(
    {SYSTEM, COMPUTE_BUDGET, TOKENKEG, TOKENZ, ATOKEN, STAKE, MEMO, MEMO_V1}
)
