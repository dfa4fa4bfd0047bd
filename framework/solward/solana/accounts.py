"""The rent that an account must hold, and the layouts of nonces and lookup tables."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from solders.pubkey import Pubkey

from solward.solana.programs import SYSTEM_PROGRAM
from solward.types.ledger import Account

# (data length + 128) bytes at 3,480 lamports a byte-year, two years: the rent-exempt minimum.
RENT_PER_BYTE: Final = 6_960
RENT_OVERHEAD_BYTES: Final = 128

# AddressLookupTable: u32 state (1 = table), u64 deactivation slot, then bookkeeping up to byte 56,
# then the addresses.
LOOKUP_TABLE_HEADER_BYTES: Final = 56

NONCE_BYTES: Final = 80
# u32 version, u32 state, authority, durable nonce, u64 lamports per signature.
_NONCE = struct.Struct("<II32s32sQ")
_NONCE_INITIALIZED = 1


@dataclass(frozen=True, slots=True)
class Nonce:
    """An initialised durable nonce: `version` 0 is legacy, 1 current; `value` its 32 bytes."""

    version: int
    authority: str
    value: bytes
    lamports_per_signature: int


def rent_exempt_minimum(size: int) -> int:
    """Lamports an account of `size` data bytes must hold."""
    return (size + RENT_OVERHEAD_BYTES) * RENT_PER_BYTE


def key_at(data: bytes, start: int) -> str:
    """The base58 address in the 32 bytes at `start`.

    Raises:
        IndexError: there are fewer; solders itself would panic, past every `except Exception`.
    """
    key = data[start : start + 32]
    if len(key) != 32:
        raise IndexError(f"an address needs 32 bytes, there are {len(key)}")
    return str(Pubkey.from_bytes(key))


def decode_nonce(data: bytes) -> Nonce | None:
    """The initialised nonce at the start of `data`, None where there is none."""
    if len(data) < NONCE_BYTES:
        return None
    version, state, authority, value, fee = _NONCE.unpack_from(data)
    return Nonce(version, key_at(authority, 0), value, fee) if state == _NONCE_INITIALIZED else None


def nonce_account(account: Account | None) -> Nonce | None:
    """The initialised durable nonce in `account`, of any version."""
    if account is None or account.owner != SYSTEM_PROGRAM or len(account.data) != NONCE_BYTES:
        return None
    return decode_nonce(account.data)


def nonce_authority(account: Account | None) -> str | None:
    """Who may advance and withdraw the durable nonce in `account`."""
    nonce = nonce_account(account)
    return nonce.authority if nonce else None


def lookup_table_addresses(data: bytes) -> list[str]:
    """The addresses in the data of a lookup table, in order."""
    return [key_at(data, at) for at in range(LOOKUP_TABLE_HEADER_BYTES, len(data) - 31, 32)]
