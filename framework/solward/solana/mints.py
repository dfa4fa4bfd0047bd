"""Mints as the token programs store them, read from account bytes.

Layout: `spl-token` `state.rs` (Mint, 82 bytes); extensions of Token-2022 follow the account
type at byte 165 as type-length-value entries; TokenMetadata is type 19.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from solders.pubkey import Pubkey

from solward.errors import InvalidRequest
from solward.solana.ledger import Account, ReadLedger
from solward.solana.programs import PROGRAM_NAMES, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, TOKEN_PROGRAMS

_MINT_BYTES = 82
_EXTENDED_FROM = 165
_MULTISIG_BYTES = 355
_MINT_ACCOUNT_TYPE = 1
_TOKEN_METADATA = 19

_TOKEN_ACCOUNT_BYTES = 165
# A Token-2022 associated account has an account type and the immutable-owner extension.
_TOKEN_2022_ACCOUNT_BYTES = 170
# Mint extension -> bytes of the account extension it asks for, header included
# (`ExtensionType::get_required_init_account_extensions`): transfer fee, non-transferable,
# transfer hook, pausable.
_ACCOUNT_EXTENSION_BYTES = {1: 12, 9: 4, 14: 5, 26: 4}


@dataclass(frozen=True, slots=True)
class Mint:
    """A token's mint.

    Attributes:
        program: base58 id of the token program that owns it.
        supply: units in existence, 10**-decimals of a whole token each.
        mint_authority: who may make more; None when nobody ever can.
        freeze_authority: who may freeze holders' accounts; None when nobody can.
        name: from its own metadata, None when it has none; anybody may claim any name.
        symbol: likewise.
        extensions: types of its Token-2022 extensions, in their order.
    """

    address: str
    program: str
    decimals: int
    supply: int
    mint_authority: str | None
    freeze_authority: str | None
    name: str | None = None
    symbol: str | None = None
    extensions: tuple[int, ...] = ()

    @property
    def program_name(self) -> str:
        """`SPL Token` or `Token-2022`."""
        return PROGRAM_NAMES[self.program]


def parse_mint(address: str, account: Account | None) -> Mint | None:
    """The mint in an account, None when there is none (or it is not initialised)."""
    if account is None or account.owner not in TOKEN_PROGRAMS:
        return None
    data = account.data
    if len(data) != _MINT_BYTES and not _is_extended_mint(account):
        return None
    if data[45] != 1:
        return None
    name, symbol = _metadata(address, data)
    return Mint(
        address=address,
        program=account.owner,
        decimals=data[44],
        supply=int.from_bytes(data[36:44], "little"),
        mint_authority=_optional_key(data, 0),
        freeze_authority=_optional_key(data, 46),
        name=name,
        symbol=symbol,
        extensions=tuple(kind for kind, _ in _extensions(data)),
    )


def associated_account_size(mint: Mint) -> int:
    """Bytes of a new associated token account of `mint`."""
    if mint.program == TOKEN_PROGRAM:
        return _TOKEN_ACCOUNT_BYTES
    asked = sum(_ACCOUNT_EXTENSION_BYTES.get(kind, 0) for kind in mint.extensions)
    return _TOKEN_2022_ACCOUNT_BYTES + asked


async def read_mint(ledger: ReadLedger, address: str, field: str = "mint") -> Mint:
    """Read a mint.

    Raises:
        InvalidRequest: naming `field`, when the account does not exist or is no mint.
        LedgerError: the ledger did not answer.
    """
    mint = parse_mint(address, await ledger.account(address))
    if mint is None:
        raise InvalidRequest(f"{field} must be a token's mint; {address} is none on this network")
    return mint


def _is_extended_mint(account: Account) -> bool:
    # A multisig is told apart by its length alone, which no extended account can have.
    data = account.data
    return (
        account.owner == TOKEN_2022_PROGRAM
        and len(data) > _EXTENDED_FROM
        and len(data) != _MULTISIG_BYTES
        and data[_EXTENDED_FROM] == _MINT_ACCOUNT_TYPE
    )


def _optional_key(data: bytes, start: int) -> str | None:
    if data[start : start + 4] != b"\x01\0\0\0":
        return None
    return str(Pubkey.from_bytes(data[start + 4 : start + 36]))


def _metadata(address: str, data: bytes) -> tuple[str | None, str | None]:
    """Name and symbol of the mint's own metadata; that of another mint does not count."""
    for kind, value in _extensions(data):
        if kind != _TOKEN_METADATA or value[32:64] != bytes(Pubkey.from_string(address)):
            continue
        name, rest = _text(value[64:])
        symbol, _ = _text(rest)
        return name or None, symbol or None
    return None, None


def _extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    start = _EXTENDED_FROM + 1
    while start + 4 <= len(data):
        kind = int.from_bytes(data[start : start + 2], "little")
        size = int.from_bytes(data[start + 2 : start + 4], "little")
        if kind == 0:
            return
        yield kind, data[start + 4 : start + 4 + size]
        start += 4 + size


def _text(data: bytes) -> tuple[str, bytes]:
    """A borsh string (length, UTF-8) and what follows; printable characters only.

    Anybody can write a mint's metadata, and it is shown to models and terminals.
    """
    size = int.from_bytes(data[:4], "little")
    text = data[4 : 4 + size].decode("utf-8", "replace")
    return "".join(each for each in text if each.isprintable())[:64], data[4 + size :]
