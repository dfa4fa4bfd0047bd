"""Shared parts of Agave's `jsonParsed` encoding of accounts and instructions: a cursor over
little-endian bytes, tables of fields, amounts, and the tokens' own accounts.

The shapes follow `account-decoder` and `transaction-status` of anza-xyz/agave. Data without a
parser raises `Unparsable`; the caller then falls back as Agave does, to base64 or to a partially
decoded instruction.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey
from spl.token.constants import NATIVE_DECIMALS

from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT, WRAPPED_SOL_MINT
from solward.solana.tokens import MULTISIG_BYTES, Mint, TokenAccount, read_extensions
from solward.solana.tokens import token_account as strict_token_account
from solward_localnet.accountindex import mint_account, plain

ParseContext = Callable[[Pubkey], Account | None]
"""Returns the account at an address, or None. Token accounts are parsed with their mint."""

Parsed = dict[str, Any]

_ZERO_KEY = bytes(32)


class Unparsable(Exception):
    """The bytes do not have the expected layout, or there is no parser for their program."""


class Reader:
    """Reads fixed-width little-endian values one after the other.

    Every method raises `Unparsable` where the data ends too early.
    """

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self._position + count
        if end > len(self._data):
            raise Unparsable(f"{end} bytes expected, {len(self._data)} given")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def remaining(self) -> int:
        """Return the number of bytes that are not yet read."""
        return len(self._data) - self._position

    def unsigned(self, width: int) -> int:
        """Return an unsigned integer of `width` bytes."""
        return int.from_bytes(self.take(width), "little")

    def u8(self) -> int:
        """Return an unsigned byte."""
        return self.unsigned(1)

    def u16(self) -> int:
        """Return an unsigned integer of 2 bytes."""
        return self.unsigned(2)

    def u32(self) -> int:
        """Return an unsigned integer of 4 bytes."""
        return self.unsigned(4)

    def u64(self) -> int:
        """Return an unsigned integer of 8 bytes."""
        return self.unsigned(8)

    def amount(self) -> str:
        """Return an unsigned integer of 8 bytes as text, so that no JSON parser rounds it."""
        return str(self.u64())

    def i16(self) -> int:
        """Return a two's complement integer of 2 bytes."""
        return int.from_bytes(self.take(2), "little", signed=True)

    def i64(self) -> int:
        """Return a two's complement integer of 8 bytes."""
        return int.from_bytes(self.take(8), "little", signed=True)

    def double(self) -> float | None:
        """Return a 64-bit float; None if it is not finite, which JSON cannot represent."""
        return json_float(struct.unpack("<d", self.take(8))[0])

    def boolean(self) -> bool:
        """Return a byte that is 0 or 1."""
        value = self.u8()
        if value > 1:
            raise Unparsable(f"0 or 1 expected, {value} given")
        return value == 1

    def key(self) -> str:
        """Return an address, as base58."""
        return str(Pubkey(self.take(32)))

    def key_or_none(self) -> str | None:
        """Return an address as base58; None if all bytes are zero (`OptionalNonZeroPubkey`)."""
        raw = self.take(32)
        return None if raw == _ZERO_KEY else str(Pubkey(raw))

    def optional_key(self) -> str | None:
        """Return an address as base58; None if the byte before it says that it is absent."""
        return self.key() if self.boolean() else None

    def short_text(self) -> str:
        """Return UTF-8 text that follows its length in bytes, an integer of 4 bytes."""
        return self.text(self.u32())

    def long_text(self) -> str:
        """Return UTF-8 text that follows its length in bytes, an integer of 8 bytes."""
        return self.text(self.u64())

    def text(self, size: int | None = None) -> str:
        """Return UTF-8 text of `size` bytes, or of all remaining bytes for None."""
        try:
            return self.take(self.remaining() if size is None else size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unparsable(f"text is not UTF-8: {error}") from None


def json_float(value: float) -> float | None:
    """Return a float for JSON; None if it is not finite."""
    return value if math.isfinite(value) else None


Fields = Mapping[str, Callable[[Reader], Any]]
"""The names of consecutive values, each with the function that reads it. A name that ends with `?`
is omitted if its value is None."""


def read_fields(fields: Fields, read: Reader) -> Parsed:
    """Return the values of `fields` by their names, in their order."""
    values = [(name, field(read)) for name, field in fields.items()]
    return {
        name.removesuffix("?"): value
        for name, value in values
        if value is not None or not name.endswith("?")
    }


@dataclass(frozen=True, slots=True)
class Layout:
    """The `jsonParsed` form of one instruction.

    Attributes:
        accounts: the accounts' names in order. A name with `*` is for all remaining accounts.
        fields: the fields of its data after its number.
        authority: the name of the account after these, which signs, or of a multisig, whose signers
            follow; empty if there is none.
    """

    type: str
    accounts: tuple[str, ...]
    fields: Fields = field(default_factory=dict)
    authority: str = ""


def parse_numbered(
    layouts: Mapping[int, Layout], kind: int, accounts: Sequence[str], read: Reader
) -> Parsed:
    """Return `{"type", "info"}` of instruction number `kind`; `read` is at its first field.

    Raises:
        Unparsable: no such instruction, missing accounts, or data too short.
    """
    if kind not in layouts:
        raise Unparsable(f"no parser for instruction {kind}")
    return parsed_call(layouts[kind], accounts, read)


def parsed_call(layout: Layout, accounts: Sequence[str], read: Reader) -> Parsed:
    """Return `{"type", "info"}` of an instruction with this layout; see `parse_numbered`."""
    info, left = _name_accounts(layout.accounts, accounts)
    info |= read_fields(layout.fields, read)
    name = layout.authority
    if name and not left:
        raise Unparsable("the authority's account is missing")
    if name and len(left) == 1:
        info[name] = left[0]
    elif name:
        info |= {f"multisig{name[0].upper()}{name[1:]}": left[0], "signers": left[1:]}
    return {"type": layout.type, "info": info}


def _name_accounts(names: Sequence[str], accounts: Sequence[str]) -> tuple[Parsed, list[str]]:
    """Return the named accounts by name, and the remaining accounts."""
    if len(accounts) < len(names):
        raise Unparsable(f"{len(names)} accounts expected, {len(accounts)} given")
    info: Parsed = {}
    left = list(accounts)
    for name in names:
        if name.startswith("*"):
            info[name.removeprefix("*")], left = left, []
        else:
            info[name] = left.pop(0)
    return info, left


_NATIVE_MINTS = frozenset({WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT})
_STATES = ("uninitialized", "initialized", "frozen")

EXTENSION_TYPES = (
    "uninitialized",
    "transferFeeConfig",
    "transferFeeAmount",
    "mintCloseAuthority",
    "confidentialTransferMint",
    "confidentialTransferAccount",
    "defaultAccountState",
    "immutableOwner",
    "memoTransfer",
    "nonTransferable",
    "interestBearingConfig",
    "cpiGuard",
    "permanentDelegate",
    "nonTransferableAccount",
    "transferHook",
    "transferHookAccount",
    "confidentialTransferFeeConfig",
    "confidentialTransferFeeAmount",
    "metadataPointer",
    "tokenMetadata",
    "groupPointer",
    "tokenGroup",
    "groupMemberPointer",
    "tokenGroupMember",
    "confidentialMintBurn",
    "scaledUiAmount",
    "pausable",
    "pausableAccount",
    "permissionedBurn",
)
"""The name of each `ExtensionType` in instructions; its index is spl_token_2022's number."""


def ui_token_amount(amount: int, decimals: int) -> Parsed:
    """Return the `UiTokenAmount` of `amount` base units.

    `uiAmount` is for display only (a JSON number, as the wire has it); `amount` is exact.
    """
    text = str(amount)
    if decimals:
        padded = text.rjust(decimals + 1, "0")
        text = f"{padded[:-decimals]}.{padded[-decimals:]}".rstrip("0").rstrip(".")
    # Agave computes the divisor in 64 bits and gives up past them.
    fits = 10**decimals < 2**64
    return {
        "uiAmount": float(amount) / float(10**decimals) if fits else None,
        "decimals": decimals,
        "amount": str(amount),
        "uiAmountString": text,
    }


def mint_decimals(address: Pubkey, context: ParseContext) -> int:
    """Return the decimals of the mint at `address`.

    Raises:
        Unparsable: there is no such mint.
    """
    if str(address) in _NATIVE_MINTS:
        return NATIVE_DECIMALS
    mint = mint_account(address, context(address))
    if mint is None:
        raise Unparsable(f"no mint at {address}")
    return mint.decimals


def parse_token(pubkey: Pubkey, account: Account, context: ParseContext) -> Parsed:
    """Return a token account, mint or multisig as `{"type", "info"}`.

    Raises:
        Unparsable: the data is none of the three, or the token account's mint is unknown.
    """
    data = account.data
    token = strict_token_account(plain(account), strict=True)
    if token is not None:
        return {"type": "account", "info": _token_account(token, context) | _parse_extensions(data)}
    mint = mint_account(pubkey, account)
    if mint is not None:
        return {"type": "mint", "info": _parse_mint(mint) | _parse_extensions(data)}
    if len(data) == MULTISIG_BYTES:
        info = read_fields(_MULTISIG, Reader(data))
        if not info["isInitialized"]:
            raise Unparsable("the multisig is not initialized")
        return {"type": "multisig", "info": info}
    raise Unparsable("neither a token account nor a mint nor a multisig")


def _token_account(token: TokenAccount, context: ParseContext) -> Parsed:
    decimals = mint_decimals(Pubkey.from_string(token.mint), context)
    info: Parsed = {
        "mint": token.mint,
        "owner": token.owner,
        "tokenAmount": ui_token_amount(token.amount, decimals),
        "state": "frozen" if token.is_frozen else "initialized",
        "isNative": token.rent_reserve is not None,
    }
    if token.delegate is not None:
        info["delegate"] = token.delegate
        info["delegatedAmount"] = ui_token_amount(token.delegated_amount, decimals)
    if token.rent_reserve is not None:
        info["rentExemptReserve"] = ui_token_amount(token.rent_reserve, decimals)
    if token.close_authority is not None:
        info["closeAuthority"] = token.close_authority
    return info


def _parse_mint(mint: Mint) -> Parsed:
    return {
        "mintAuthority": mint.mint_authority,
        "supply": str(mint.supply),
        "decimals": mint.decimals,
        "isInitialized": True,
        "freezeAuthority": mint.freeze_authority,
    }


def _read_signers(read: Reader) -> list[str]:
    signers = [read.key_or_none() for _ in range(11)]
    return [signer for signer in signers if signer is not None]


def _parse_extensions(data: bytes) -> Parsed:
    """Return the extensions as `{"extension": name, "state": {...}}`, in the order they are stored.

    Extensions without a state have their name alone. One that cannot be read, and the confidential
    transfer family, is listed as `unparsableExtension`, which is Agave's name for such.
    """
    found = [_parse_extension(kind, value) for kind, value in read_extensions(data, strict=True)]
    return {"extensions": found} if found else {}


def _parse_extension(kind: int, data: bytes) -> Parsed:
    try:
        name = EXTENSION_TYPES[kind]
        fields = _EXTENSIONS[name]
        state = read_fields(fields, Reader(data))
    except (IndexError, KeyError, Unparsable):
        return {"extension": "unparsableExtension"}
    shown: Parsed = {"extension": _OTHER_NAMES.get(name, name)}
    return shown | {"state": state} if fields else shown


def _read_account_state(read: Reader) -> str:
    state = read.u8()
    return _STATES[state] if state < len(_STATES) else _STATES[0]


def _read_multiplier(read: Reader) -> str:
    return str(read.double()).removesuffix(".0")


def _read_transfer_fee(read: Reader) -> Parsed:
    return read_fields(_TRANSFER_FEE, read)


_MULTISIG: Fields = {
    "numRequiredSigners": Reader.u8,
    "numValidSigners": Reader.u8,
    "isInitialized": Reader.boolean,
    "signers": _read_signers,
}
_TRANSFER_FEE: Fields = {
    "epoch": Reader.u64,
    "maximumFee": Reader.u64,
    "transferFeeBasisPoints": Reader.u16,
}

# Where accounts have another name than instructions.
_OTHER_NAMES = {"scaledUiAmount": "scaledUiAmountConfig", "pausable": "pausableConfig"}
# What each holds as its state, if it has one.
_EXTENSIONS: Mapping[str, Fields] = {
    "transferFeeConfig": {
        "transferFeeConfigAuthority": Reader.key_or_none,
        "withdrawWithheldAuthority": Reader.key_or_none,
        "withheldAmount": Reader.u64,
        "olderTransferFee": _read_transfer_fee,
        "newerTransferFee": _read_transfer_fee,
    },
    "transferFeeAmount": {"withheldAmount": Reader.u64},
    "mintCloseAuthority": {"closeAuthority": Reader.key_or_none},
    "defaultAccountState": {"accountState": _read_account_state},
    "immutableOwner": {},
    "memoTransfer": {"requireIncomingTransferMemos": Reader.boolean},
    "nonTransferable": {},
    "interestBearingConfig": {
        "rateAuthority": Reader.key_or_none,
        "initializationTimestamp": Reader.i64,
        "preUpdateAverageRate": Reader.i16,
        "lastUpdateTimestamp": Reader.i64,
        "currentRate": Reader.i16,
    },
    "cpiGuard": {"lockCpi": Reader.boolean},
    "permanentDelegate": {"delegate": Reader.key_or_none},
    "nonTransferableAccount": {},
    "transferHook": {"authority": Reader.key_or_none, "programId": Reader.key_or_none},
    "transferHookAccount": {"transferring": Reader.boolean},
    "metadataPointer": {"authority": Reader.key_or_none, "metadataAddress": Reader.key_or_none},
    "tokenMetadata": {
        "updateAuthority": Reader.key_or_none,
        "mint": Reader.key,
        "name": Reader.short_text,
        "symbol": Reader.short_text,
        "uri": Reader.short_text,
        "additionalMetadata": lambda read: [
            [read.short_text(), read.short_text()] for _ in range(read.u32())
        ],
    },
    "groupPointer": {"authority": Reader.key_or_none, "groupAddress": Reader.key_or_none},
    "tokenGroup": {
        "updateAuthority": Reader.key_or_none,
        "mint": Reader.key,
        "size": Reader.u64,
        "maxSize": Reader.u64,
    },
    "groupMemberPointer": {"authority": Reader.key_or_none, "memberAddress": Reader.key_or_none},
    "tokenGroupMember": {"mint": Reader.key, "group": Reader.key, "memberNumber": Reader.u64},
    "scaledUiAmount": {
        "authority": Reader.key_or_none,
        "multiplier": _read_multiplier,
        "newMultiplierEffectiveTimestamp": Reader.i64,
        "newMultiplier": _read_multiplier,
    },
    "pausable": {"authority": Reader.key_or_none, "paused": Reader.boolean},
    "pausableAccount": {},
}
