"""Accounts and transactions between bytes and the encodings of Solana's JSON-RPC."""

import base64
import binascii
import sys
from collections.abc import Callable, Mapping
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from solward.solana.protocol import MAX_V1_WIRE_BYTES
from solward.support.base58 import b58decode, b58encode
from solward_localnet.errors import INVALID_REQUEST, RpcError, check_variant, invalid_params
from solward_localnet.parsed.accounts import parse_account
from solward_localnet.parsed.reader import ParseContext, Unparsable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BASE58_BYTES = 128
"""Agave's limit for account data in base58, whose encoding is quadratic in time."""

# Agave's limits for an encoded transaction: what the longest one can need at most.
_MAX_ENCODED = {"base58": 5594, "base64": 5464}
_TRANSACTION = "solana_transaction::versioned::VersionedTransaction"

ACCOUNT_ENCODINGS = ("binary", "base58", "base64", "base64+zstd", "jsonParsed")


def encode_account(
    account: Account,
    encoding: str | None,
    data_slice: Mapping[str, Any] | None,
    pubkey: Pubkey,
    parse_context: ParseContext = lambda _address: None,
) -> dict[str, Any]:
    """The `UiAccount` of `account`: lamports, data, owner, executable, rentEpoch, space.

    `encoding` None is the legacy `binary`: base58 text alone. `jsonParsed` falls back to base64
    where the data cannot be parsed, as in Agave. `data_slice` is `{"offset", "length"}` in bytes
    and does not touch `space`, which is the whole length. `parse_context` looks up mints;
    without one token accounts fall back too.

    Raises:
        RpcError: an unknown encoding or a bad slice (-32602), or more than 128 bytes in base58
            (-32600), with Agave's texts.
    """
    check_account_encoding(encoding)
    whole = account.data
    return {
        "lamports": account.lamports,
        "data": _encode_data(account, encoding, data_slice, pubkey, parse_context),
        "owner": str(account.owner),
        "executable": account.executable,
        "rentEpoch": account.rent_epoch,
        "space": len(whole),
    }


def check_account_encoding(encoding: object) -> None:
    """Refuse what is not an account encoding.

    Raises:
        RpcError: -32602 with the text serde gives for an unknown variant.
    """
    if encoding is not None:
        check_variant(encoding, ACCOUNT_ENCODINGS)


def _encode_data(
    account: Account,
    encoding: str | None,
    data_slice: Mapping[str, Any] | None,
    pubkey: Pubkey,
    parse_context: ParseContext,
) -> Any:
    if encoding == "jsonParsed":
        try:
            return parse_account(pubkey, account, parse_context)
        except Unparsable:
            encoding = "base64"
    data = _slice(account.data, data_slice)
    if encoding in (None, "binary", "base58"):
        if len(data) > MAX_BASE58_BYTES:
            raise RpcError(
                INVALID_REQUEST,
                "Encoded binary (base 58) data should be less than "
                f"{MAX_BASE58_BYTES} bytes, please use Base64 encoding.",
            )
        text = b58encode(data)
        return [text, "base58"] if encoding == "base58" else text
    if encoding == "base64+zstd":
        data = zstd.compress(data)
    return [base64.b64encode(data).decode("ascii"), encoding]


def _slice(data: bytes, data_slice: Mapping[str, Any] | None) -> bytes:
    if data_slice is None:
        return data
    bounds: list[int] = []
    for field in ("offset", "length"):
        value = data_slice.get(field)
        if type(value) is not int or value < 0:
            raise invalid_params(
                f"Invalid params: dataSlice.{field} must be a whole number of bytes, not {value!r}."
            )
        bounds.append(value)
    offset, length = bounds
    return data[offset : offset + length]


def decode_transaction(text: str, encoding: str) -> bytes:
    """The wire bytes of a transaction given as base58 or base64 text.

    Raises:
        RpcError: -32602, with Agave's texts: an encoding other than the two, text that is not of
            its encoding, or more than 4,096 bytes.
    """
    limit = _MAX_ENCODED.get(encoding)
    if limit is None:
        raise invalid_params(
            f"unsupported encoding: {encoding}. Supported encodings: base58, base64"
        )
    if len(text) > limit:
        raise invalid_params(
            f"{encoding} encoded {_TRANSACTION} too large: {len(text)} bytes "
            f"(max: encoded/raw {limit}/{MAX_V1_WIRE_BYTES})"
        )
    try:
        wire = _DECODERS[encoding](text)
    except ValueError as error:
        raise invalid_params(f"invalid {encoding} encoding: {error}") from None
    if len(wire) > MAX_V1_WIRE_BYTES:
        raise invalid_params(
            f"decoded {_TRANSACTION} too large: {len(wire)} bytes (max: {MAX_V1_WIRE_BYTES} bytes)"
        )
    return wire


def _b64decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


_DECODERS: Mapping[str, Callable[[str], bytes]] = {"base58": b58decode, "base64": _b64decode}
