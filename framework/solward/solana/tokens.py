"""Token accounts and mints as SPL Token and Token-2022 store them; and checks of recipients, which
refuse an address that could not spend a payment.

Layouts: `spl-token` `state.rs` (mint 82 bytes, token account 165, multisig 355). Token-2022 puts
an account type at byte 165 and extensions after it as type-length-value entries.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from solward.solana.accounts import key_at, max_rent
from solward.solana.programs import (
    CLOCK_SYSVAR,
    INCINERATOR,
    LOADERS,
    PROGRAM_NAMES,
    SYSVAR_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    TOKEN_PROGRAMS,
)
from solward.solana.token_list import known_decimals
from solward.support.clean_text import one_line
from solward.types.errors import InvalidRequest, LedgerUnavailable
from solward.types.ledger import Account, ReadLedger

MINT_BYTES: Final = 82
TOKEN_ACCOUNT_BYTES: Final = 165
TOKEN_ACCOUNT_STATE_AT: Final = 108
MULTISIG_BYTES: Final = 355
# A Token-2022 associated account has an account type and the immutable-owner extension.
TOKEN_2022_ACCOUNT_BYTES: Final = 170

# The largest one: 25 more for the account extensions that mints with a transfer fee, a transfer
# hook, or tokens that are pausable or cannot be transferred require.
TOKEN_2022_MAX_ACCOUNT_BYTES: Final = 195
# A TokenMetadata without its texts: header, two keys, and the length of its list of further fields.
TOKEN_METADATA_FIXED_BYTES: Final = 4 + 64 + 4

# Lamports that bounds count for an account; a cluster may ask less.
TOKEN_ACCOUNT_RENT: Final = max_rent(TOKEN_ACCOUNT_BYTES)
TOKEN_2022_MAX_ACCOUNT_RENT: Final = max_rent(TOKEN_2022_MAX_ACCOUNT_BYTES)

# Mint authority, supply, decimals, initialised, freeze authority; authorities are a u32 tag and
# 32 bytes (`COption<Pubkey>`).
_MINT = struct.Struct("<I32sQBBI32s")
# Mint, owner, amount, delegate, state (1 initialised, 2 frozen), rent reserve of wrapped SOL
# (`COption<u64>`), delegated amount, close authority.
_TOKEN_ACCOUNT = struct.Struct("<32s32sQI32sBIQQI32s")
_MINT_TYPE, _ACCOUNT_TYPE = 1, 2
_TOKEN_METADATA = 19

# Mint extensions that change what a transfer does.
TRANSFER_FEE: Final = 1
NON_TRANSFERABLE: Final = 9
TRANSFER_HOOK: Final = 14
# Of `TransferHook`: the authority that may set the program, then the program; zeros are none.
_HOOK_PROGRAM_AT = 32
_NO_KEY = bytes(32)
# In the clock sysvar, after slot and the epoch's start.
_CLOCK_EPOCH_AT = 16

# `TransferFeeConfig`: two authorities, the withheld units, then the older and the newer fee, each
# as its first epoch, maximum units, and basis points.
_TRANSFER_FEE_AT = 72
_TRANSFER_FEE = struct.Struct("<QQHQQH")

# Mint extension -> bytes of the account extension it requires, header included
# (`ExtensionType::get_required_init_account_extensions`): transfer fee, non-transferable,
# transfer hook, pausable.
_ACCOUNT_EXTENSION_BYTES = {1: 12, 9: 4, 14: 5, 26: 4}


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """A token account; amounts in units of `mint`.

    Attributes:
        is_frozen: whether the mint's freeze authority has frozen it.
        rent_reserve: rent of a wrapped SOL account, in lamports; None for any other mint.
    """

    mint: str
    owner: str
    amount: int
    delegate: str | None
    delegated_amount: int
    close_authority: str | None
    is_frozen: bool
    rent_reserve: int | None


def free_units(account: TokenAccount | None, owners: Collection[str]) -> int:
    """Return the account's units that only its owner can move or stop; 0 if the owner is not among
    `owners`. A foreign close authority also gives 0: it could recreate the account as its own."""
    if account is None or account.owner not in owners or account.is_frozen:
        return 0
    if account.close_authority is not None and account.close_authority not in owners:
        return 0
    is_foreign = account.delegate is not None and account.delegate not in owners
    return max(0, account.amount - account.delegated_amount) if is_foreign else account.amount


@dataclass(frozen=True, slots=True)
class Mint:
    """A token's mint.

    Attributes:
        program: base58 id of the token program that owns it.
        supply: units in existence, 10**-decimals of a whole token each.
        mint_authority: address that may mint more; None if nobody ever can.
        freeze_authority: address that may freeze holders' accounts; None if nobody can.
        name: from its own metadata; None without. It proves nothing: anybody can choose any name.
        symbol: like `name`.
        extensions: types of its Token-2022 extensions, in their order.
        extension_values: the raw bytes of each of `extensions`.
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
    extension_values: tuple[bytes, ...] = ()

    @property
    def program_name(self) -> str:
        """`SPL Token` or `Token-2022`."""
        return PROGRAM_NAMES[self.program]

    @property
    def runs_hook(self) -> bool:
        """True if a transfer calls a program: a transfer hook is set, or cannot be read."""
        return any(
            kind == TRANSFER_HOOK and value[_HOOK_PROGRAM_AT:] != _NO_KEY
            for kind, value in zip(self.extensions, self.extension_values, strict=True)
        )


def token_account(account: Account | None, *, strict: bool = False) -> TokenAccount | None:
    """Return the initialised token account in `account`; None if there is none.

    Args:
        strict: decode as the programs do: option tags are 0 or 1, and the state is known.
            Otherwise any state but 0 counts as initialised and any tag but 1 as absent, so that
            anything that might be a token account counts as one.
    """
    if account is None or not _is_token_data(account, TOKEN_ACCOUNT_BYTES, _ACCOUNT_TYPE):
        return None
    return _decode_token_account(account.data[:TOKEN_ACCOUNT_BYTES], strict)


# One assessment decodes the same two or three accounts a dozen times.
@functools.lru_cache(maxsize=256)
def _decode_token_account(data: bytes, strict: bool) -> TokenAccount | None:
    mint, owner, amount, tag, delegate, state, reserve_tag, reserve, delegated, close_tag, close = (
        _TOKEN_ACCOUNT.unpack(data)
    )
    if state == 0 or (strict and (state > 2 or max(tag, reserve_tag, close_tag) > 1)):
        return None
    return TokenAccount(
        mint=key_at(mint, 0),
        owner=key_at(owner, 0),
        amount=amount,
        delegate=_option_key(tag, delegate),
        delegated_amount=delegated,
        close_authority=_option_key(close_tag, close),
        is_frozen=state == 2,
        rent_reserve=reserve if reserve_tag == 1 else None,
    )


def mint_account(address: str, account: Account | None, *, strict: bool = False) -> Mint | None:
    """Return the initialised mint in `account`; None if there is none.

    Args:
        strict: decode as the programs do; see `token_account`.
    """
    if account is None or not _is_token_data(account, MINT_BYTES, _MINT_TYPE):
        return None
    # Extensions may be of any size.
    read = _decode_mint if len(account.data) <= TOKEN_ACCOUNT_BYTES else _decode_mint.__wrapped__
    return read(address, account.owner, account.data, strict)


@functools.lru_cache(maxsize=256)
def _decode_mint(address: str, program: str, data: bytes, strict: bool) -> Mint | None:
    tag, authority, supply, decimals, initialized, freeze_tag, freezer = _MINT.unpack_from(data)
    if initialized == 0 or (strict and (initialized > 1 or max(tag, freeze_tag) > 1)):
        return None
    extensions = tuple(read_extensions(data))
    name, symbol = _read_metadata(address, extensions)
    return Mint(
        address=address,
        program=program,
        decimals=decimals,
        supply=supply,
        mint_authority=_option_key(tag, authority),
        freeze_authority=_option_key(freeze_tag, freezer),
        name=name,
        symbol=symbol,
        extensions=tuple(kind for kind, _ in extensions),
        extension_values=tuple(value for _, value in extensions),
    )


def read_extensions(data: bytes, *, strict: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield the type and value of each extension of a Token-2022 account; type 0 ends the list.

    Args:
        strict: end before a value that is cut off.
    """
    start = TOKEN_ACCOUNT_BYTES + 1
    while start + 4 <= len(data):
        kind, size = struct.unpack_from("<HH", data, start)
        start += 4
        if kind == 0 or (strict and start + size > len(data)):
            return
        yield kind, data[start : start + size]
        start += size


@functools.lru_cache(maxsize=1_024)
def associated_address(owner: str, mint: str, program: str) -> str:
    """Return the address of an owner's associated token account under a token program; pure."""
    keys = (Pubkey.from_string(key) for key in (owner, mint, program))
    return str(get_associated_token_address(*keys))


def associated_account_size(mint: Mint) -> int:
    """Return the size in bytes of a new associated token account of `mint`."""
    if mint.program == TOKEN_PROGRAM:
        return TOKEN_ACCOUNT_BYTES
    required = sum(_ACCOUNT_EXTENSION_BYTES.get(kind, 0) for kind in mint.extensions)
    return TOKEN_2022_ACCOUNT_BYTES + required


def transfer_fee(mint: Mint, units: int, epoch: int) -> int:
    """Return the units of a transfer that the mint withholds as its fee in this epoch."""
    for kind, value in zip(mint.extensions, mint.extension_values, strict=True):
        if kind == TRANSFER_FEE:
            _from, old_most, old_bps, since, most, bps = _TRANSFER_FEE.unpack_from(
                value, _TRANSFER_FEE_AT
            )
            if epoch < since:
                most, bps = old_most, old_bps
            return min(-(-units * int(bps) // 10_000), int(most))
    return 0


async def current_epoch(ledger: ReadLedger) -> int:
    """Return the ledger's present epoch, for `transfer_fee`; raises `LedgerError`."""
    clock = await ledger.account(CLOCK_SYSVAR)
    if clock is None or len(clock.data) < _CLOCK_EPOCH_AT + 8:
        raise LedgerUnavailable("The ledger shows no clock")
    return int.from_bytes(clock.data[_CLOCK_EPOCH_AT : _CLOCK_EPOCH_AT + 8], "little")


async def read_mint(ledger: ReadLedger, address: str, field: str = "mint") -> Mint:
    """Read a mint.

    Raises:
        InvalidRequest: naming `field`, when the account does not exist or is no mint.
        LedgerError: the ledger did not answer, or returns wrong decimals for a listed mint, with
            which amounts would be wrong.
    """
    mint = mint_account(address, await ledger.account(address), strict=True)
    if mint is None:
        raise InvalidRequest(f"{field} must be a token's mint; {address} is none on this network")
    known = known_decimals(address)
    if known is not None and mint.decimals != known:
        raise LedgerUnavailable(
            f"The ledger says that {address} has {mint.decimals} decimals; it has {known}"
        )
    return mint


def _is_token_data(account: Account, size: int, account_type: int) -> bool:
    if account.owner not in TOKEN_PROGRAMS:
        return False
    data = account.data
    # A multisig has no account type: its length, which no extended account can have, names it.
    return len(data) == size or (
        account.owner == TOKEN_2022_PROGRAM
        and len(data) > TOKEN_ACCOUNT_BYTES
        and len(data) != MULTISIG_BYTES
        and data[TOKEN_ACCOUNT_BYTES] == account_type
    )


def _option_key(tag: int, key: bytes) -> str | None:
    return key_at(key, 0) if tag == 1 else None


def _read_metadata(
    address: str, extensions: tuple[tuple[int, bytes], ...]
) -> tuple[str | None, str | None]:
    """Name and symbol of the mint's own metadata; metadata of another mint is ignored."""
    for kind, value in extensions:
        if kind != _TOKEN_METADATA or value[32:64] != bytes(Pubkey.from_string(address)):
            continue
        name, rest = _read_string(value[64:])
        symbol, _ = _read_string(rest)
        return name or None, symbol or None
    return None, None


def _read_string(data: bytes) -> tuple[str, bytes]:
    """Return a borsh string (length, UTF-8), cleaned and without padding, and the bytes after it.

    The text is cleaned because anybody can write a mint's metadata, which models and people read.
    """
    size = int.from_bytes(data[:4], "little")
    text = data[4 : 4 + size].decode("utf-8", "replace")
    return one_line(text.strip("\x00"), 64), data[4 + size :]


_INSTEAD: Final = "expected a wallet's address"


def check_recipient(
    field: str, address: str, state: Account | None, mint: str = "", *, is_owner: bool = False
) -> None:
    """Check that a recipient can spend what it receives, for every asset; pure.

    Args:
        state: the account at the address. None, or one that the System program owns, passes: it
            is a wallet, or a program's vault such as a multisig's.
        mint: the mint of the tokens that are sent; its token accounts pass too.
        is_owner: whether it is the owner of the token account that receives. A multisig of a token
            program spends tokens, and no SOL.

    Raises:
        InvalidRequest: naming `field`; the incinerator, a program, a sysvar, a mint, a token
            account of another mint, or any other account of a token program.
    """
    if address == INCINERATOR:
        raise InvalidRequest(f"{field}: {address} destroys what it receives; {_INSTEAD}")
    if state is None:
        return
    if state.owner in LOADERS:
        raise InvalidRequest(f"{field}: {address} is a program; {_INSTEAD}")
    if state.owner == SYSVAR_PROGRAM:
        raise InvalidRequest(f"{field}: {address} is a sysvar; {_INSTEAD}")
    if mint_account(address, state) is not None:
        raise InvalidRequest(f"{field}: {address} is the mint of a token; {_INSTEAD}")
    found = token_account(state)
    if found is not None and found.mint != mint:
        raise InvalidRequest(
            f"{field}: {address} is a token account of {found.mint}, which {found.owner} owns;"
            f" {_INSTEAD}{f', or a token account of {mint}' if mint else ''}"
        )
    is_multisig = len(state.data) == MULTISIG_BYTES
    if found is None and state.owner in TOKEN_PROGRAMS and not (is_owner and is_multisig):
        what = "a multisig" if is_multisig else "an account without tokens"
        raise InvalidRequest(
            f"{field}: {address} is {what} of the {PROGRAM_NAMES[state.owner]} program; {_INSTEAD}"
        )


def fund_owner(state: Account | None) -> str | None:
    """Return the address that spends an account's funds: a token account's owner or else the
    account's program; None if there is no account or its program is a known one."""
    held = token_account(state)
    if held is not None:
        return held.owner
    return None if state is None or state.owner in PROGRAM_NAMES else state.owner


def check_receiver(
    field: str, address: str, states: Mapping[str, Account | None], *, is_sol: bool
) -> None:
    """Check that the receiver of a payment can spend what it receives; pure.

    Args:
        address: the account that receives the payment.
        states: the states, after the payment, of the account and of its `fund_owner`.
        is_sol: whether the payment is SOL and not tokens.

    Raises:
        InvalidRequest: as `check_recipient`, of the account or the owner of the tokens; or the
            account is of no program.
    """
    state = states.get(address)
    held = token_account(state)
    if held is None or state is None:
        check_recipient(field, address, state)
        program = fund_owner(state)
        owner = None if program is None else states.get(program)
        if program is not None and (owner is None or owner.owner not in LOADERS):
            raise InvalidRequest(
                f"{field}: {address} is owned by {program}, which is not a program; {_INSTEAD}"
            )
        return
    if is_sol and not _holds_no_loose_sol(held, state):
        check_recipient(field, address, state)
    check_recipient(field, held.owner, states.get(held.owner), is_owner=True)


def _holds_no_loose_sol(held: TokenAccount, state: Account) -> bool:
    """Return whether a token account's lamports are its rent, or synced to wrapped SOL."""
    if held.rent_reserve is not None:
        return state.lamports == held.amount + held.rent_reserve
    # An account that was made while rent was at its highest keeps the rent it paid.
    return state.lamports <= max_rent(len(state.data))
