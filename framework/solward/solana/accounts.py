"""The account layouts that carry control over a wallet's money: token, mint, stake, nonce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from solders.pubkey import Pubkey

from solward.solana.ledger import Account
from solward.solana.programs import (
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAMS,
)

_TOKEN_ACCOUNT = 165
_MINT = 82
_MULTISIG = 355
_STAKE = 200
_NONCE = 80

# (data length + 128) bytes at 3,480 lamports a byte-year, two years: the rent-exempt minimum.
RENT_PER_BYTE = 6_960
RENT_OVERHEAD_BYTES = 128


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """A token account's controlling fields; `amount` in units of `mint`."""

    mint: str
    owner: str
    amount: int
    delegate: str | None
    delegated_amount: int
    close_authority: str | None


@dataclass(frozen=True, slots=True)
class MintControl:
    """A mint's decimals, authorities and extensions (type -> raw value)."""

    decimals: int
    mint_authority: str | None
    freeze_authority: str | None
    extensions: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class StakeControl:
    """A stake account's authorities and lockup (its 48 raw bytes)."""

    staker: str
    withdrawer: str
    lockup: bytes


def rent_exempt_minimum(size: int) -> int:
    """Lamports an account of `size` data bytes must hold."""
    return (size + RENT_OVERHEAD_BYTES) * RENT_PER_BYTE


def key_at(data: bytes, start: int) -> str:
    """The base58 address in the 32 bytes at `start`."""
    return str(Pubkey.from_bytes(data[start : start + 32]))


def token_account(state: Account | None) -> TokenAccount | None:
    """The token account in `state`, None when it is none or not initialised."""
    if state is None or state.owner not in TOKEN_PROGRAMS:
        return None
    data = state.data
    if len(data) != _TOKEN_ACCOUNT and not _extended(state, account_type=2):
        return None
    if data[108] == 0:
        return None
    return TokenAccount(
        mint=key_at(data, 0),
        owner=key_at(data, 32),
        amount=int.from_bytes(data[64:72], "little"),
        delegate=_option_key(data, 72),
        delegated_amount=int.from_bytes(data[121:129], "little"),
        close_authority=_option_key(data, 129),
    )


def mint_account(state: Account | None) -> MintControl | None:
    """The mint in `state`, None when it is none or not initialised."""
    if state is None or state.owner not in TOKEN_PROGRAMS:
        return None
    data = state.data
    if len(data) != _MINT and not _extended(state, account_type=1):
        return None
    if data[45] == 0:
        return None
    return MintControl(
        decimals=data[44],
        mint_authority=_option_key(data, 0),
        freeze_authority=_option_key(data, 46),
        extensions=tuple(_extensions(data)) if len(data) > _TOKEN_ACCOUNT else (),
    )


def stake_account(state: Account | None) -> StakeControl | None:
    """The initialised or delegated stake account in `state`."""
    if state is None or state.owner != STAKE_PROGRAM or len(state.data) < _STAKE:
        return None
    if int.from_bytes(state.data[:4], "little") not in (1, 2):
        return None
    return StakeControl(key_at(state.data, 12), key_at(state.data, 44), state.data[76:124])


def nonce_authority(state: Account | None) -> str | None:
    """Who may advance and withdraw the durable nonce account in `state`."""
    if state is None or state.owner != SYSTEM_PROGRAM or len(state.data) != _NONCE:
        return None
    return key_at(state.data, 8) if int.from_bytes(state.data[4:8], "little") == 1 else None


def _extended(state: Account, account_type: int) -> bool:
    # A multisig is told apart by its length alone, which no extended account can have.
    return (
        state.owner == TOKEN_2022_PROGRAM
        and len(state.data) > _TOKEN_ACCOUNT
        and len(state.data) != _MULTISIG
        and state.data[_TOKEN_ACCOUNT] == account_type
    )


def _option_key(data: bytes, start: int) -> str | None:
    return key_at(data, start + 4) if data[start : start + 4] == b"\x01\0\0\0" else None


def _extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type-length-value entries after the account type; type 0 is padding to the end."""
    start = _TOKEN_ACCOUNT + 1
    while start + 4 <= len(data):
        kind = int.from_bytes(data[start : start + 2], "little")
        size = int.from_bytes(data[start + 2 : start + 4], "little")
        if kind == 0:
            return
        yield kind, data[start + 4 : start + 4 + size]
        start += 4 + size
