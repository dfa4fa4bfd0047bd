"""The rent that an account must have, and the layouts of nonces and lookup tables."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

from solders.pubkey import Pubkey

from solward.solana.programs import SYSTEM_PROGRAM
from solward.solana.protocol import MOST_RENT_PER_BYTE, RENT_OVERHEAD_BYTES, rent_of
from solward.types.errors import LedgerUnavailable
from solward.types.ledger import Account, ReadLedger
from solward.types.money import U64_MAX

# Rent: u64 lamports a byte and year, f64 years (1 since SIMD-0194), then a byte that nothing reads.
_RENT = struct.Struct("<Qd")

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


def max_rent(size: int) -> int:
    """Return the maximum rent, in lamports, that bounds assume for an account of `size` bytes."""
    return rent_of(size, MOST_RENT_PER_BYTE)


def rent_per_byte(sysvar: Account | None) -> int:
    """Return the lamports per byte in a node's Rent sysvar, rounded up, at least 0. Without a
    sysvar it is `MOST_RENT_PER_BYTE`; if the number is not finite, it is a higher value."""
    if sysvar is None or len(sysvar.data) < _RENT.size:
        return MOST_RENT_PER_BYTE
    rate, years = _RENT.unpack_from(sysvar.data)
    return max(0, math.ceil(rate * years)) if math.isfinite(rate * years) else U64_MAX


def rent_refusal(per_byte: int) -> str | None:
    """Return the error if the rent, `per_byte` lamports per byte, is too high, else None."""
    if per_byte <= MOST_RENT_PER_BYTE:
        return None
    return (
        f"the ledger requires {per_byte} lamports of rent per byte; above {MOST_RENT_PER_BYTE},"
        " this version signs nothing that pays rent"
    )


async def rent_now(ledger: ReadLedger, size: int) -> int:
    """Return the lamports that a new account of `size` data bytes now needs on the cluster.

    Raises:
        LedgerUnavailable: the ledger requires more than bounds assume, or returns no number.
        LedgerError: the ledger did not answer.
    """
    lamports = await ledger.rent_exempt_minimum(size)
    refused = rent_refusal(-(-lamports // (size + RENT_OVERHEAD_BYTES)))
    if refused is not None:
        raise LedgerUnavailable(refused[0].upper() + refused[1:])
    return lamports


def key_at(data: bytes, start: int) -> str:
    """Return the base58 address in the 32 bytes at `start`.

    Raises:
        IndexError: `data` is too short; solders would panic, which `except Exception` misses.
    """
    key = data[start : start + 32]
    if len(key) != 32:
        raise IndexError(f"an address needs 32 bytes, there are {len(key)}")
    return str(Pubkey.from_bytes(key))


def decode_nonce(data: bytes) -> Nonce | None:
    """Return the initialised nonce at the start of `data`; None if there is none."""
    if len(data) < NONCE_BYTES:
        return None
    version, state, authority, value, fee = _NONCE.unpack_from(data)
    return Nonce(version, key_at(authority, 0), value, fee) if state == _NONCE_INITIALIZED else None


def nonce_account(account: Account | None) -> Nonce | None:
    """Return the initialised durable nonce in `account`, of any version."""
    if account is None or account.owner != SYSTEM_PROGRAM or len(account.data) != NONCE_BYTES:
        return None
    return decode_nonce(account.data)


def nonce_authority(account: Account | None) -> str | None:
    """Return the address that may advance and withdraw the durable nonce in `account`."""
    nonce = nonce_account(account)
    return nonce.authority if nonce else None


def lookup_table_addresses(data: bytes) -> list[str]:
    """Return the addresses in the data of a lookup table, in order."""
    return [key_at(data, at) for at in range(LOOKUP_TABLE_HEADER_BYTES, len(data) - 31, 32)]
