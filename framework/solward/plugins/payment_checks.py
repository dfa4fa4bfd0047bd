"""Checks of the answers of payment protocols, which plugins make from sellers' answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from solward.solana.protocol import CHAIN_IDS, MAX_COMPUTE_UNITS, MAX_WIRE_BYTES
from solward.support import jsontext
from solward.support.base58 import b58encode, is_address, is_signature
from solward.support.clean_text import one_line
from solward.types.errors import InvalidRequest
from solward.types.payment import (
    MAX_UNITS,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSplit,
)

MAX_OFFERS: Final = 32
"""Maximum number of offers in one answer, of which a wallet pays one."""
MAX_SPLITS: Final = 8
"""Maximum number of splits (as in MPP), each a transfer in the same transaction."""
MAX_MEMO_BYTES: Final = 566
"""Maximum size of a memo that the memo program accepts."""
MAX_RAW_BYTES: Final = 32 << 10
MAX_HEADERS: Final = 8
MAX_HEADER_BYTES: Final = 16 << 10
"""Maximum size of all headers together: many servers accept no more."""
_MAX_TEXT: Final = 8_192
_MAX_REASON: Final = 500
# Milliseconds until the year 9999, the last that every calendar can show.
_MAX_MS: Final = 253_402_300_799_999
_MAX_DEPTH: Final = 32

_NETWORKS: Final = frozenset((*CHAIN_IDS, "localnet"))
_CHAIN_ID: Final = re.compile(r"[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}")
_HEADER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_PRINTABLE: Final = bytes(range(0x20, 0x7F))
# Headers that determine a request's destination, or where its body ends.
_REFUSED_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def checked_offers(found: object) -> list[PaymentOffer | InvalidRequest]:
    """Return the first `MAX_OFFERS` offers of a plugin in exact values, with `raw` in the form that
    the store will return. An invalid offer becomes an error that names its field.

    Raises:
        InvalidRequest: if it is not a sequence.
    """
    if not isinstance(found, list | tuple):
        raise InvalidRequest(f"offers must be a sequence, not {type(found).__name__}")
    checked: list[PaymentOffer | InvalidRequest] = []
    for at, each in enumerate(found[:MAX_OFFERS]):
        try:
            checked.append(_checked_offer(f"offers[{at}]", each))
        except InvalidRequest as odd:
            checked.append(odd)
    return checked


SAMPLES: Final[Mapping[PaymentMode, PaymentProof]] = MappingProxyType(
    {
        mode: PaymentProof(mode, "1" * 32, signature=b58encode(b"\xff" * 64))
        if mode is PaymentMode.PUSH
        else PaymentProof(mode, "1" * 32, wire=bytes(MAX_WIRE_BYTES))
        for mode in PaymentMode
    }
)
"""For each mode, a proof of maximum length that pays nothing."""


def check_proof(offer: PaymentOffer, proof: PaymentProof) -> None:
    """Raise `InvalidRequest` if the offer lacks the proof's mode, or the proof lacks its value."""
    if proof.mode not in offer.modes:
        raise InvalidRequest(f"proof.mode {proof.mode.value} is not one of the offer's modes")
    shown = proof.signature if proof.mode is PaymentMode.PUSH else proof.wire
    if not shown:
        field = "signature" if proof.mode is PaymentMode.PUSH else "wire"
        raise InvalidRequest(f"proof.{field} must be set in the mode {proof.mode.value}")


def checked_headers(found: object) -> dict[str, str]:
    """Check the headers that a plugin returned, and return them.

    Raises:
        InvalidRequest: if one is not valid or would change where a request goes; names it.
    """
    if not isinstance(found, Mapping) or not 0 < len(found) <= MAX_HEADERS:
        raise InvalidRequest(f"headers must be a mapping of 1 to {MAX_HEADERS} entries")
    made: dict[str, str] = {}
    for name, value in found.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidRequest("headers must have names like Payment-Signature")
        if name.lower() in _REFUSED_HEADERS or name.lower().startswith("proxy-"):
            raise InvalidRequest(f"headers must not contain {name}")
        if not isinstance(value, str) or not value or value != value.strip() or not is_plain(value):
            raise InvalidRequest(f"header {name} must be printable ASCII")
        made[str.__str__(name)] = str.__str__(value)
    if len({name.lower() for name in made}) != len(made):
        raise InvalidRequest("headers must not repeat a name")
    size = sum(len(name) + len(value) for name, value in made.items())
    if size > MAX_HEADER_BYTES:
        raise InvalidRequest(
            f"headers must have at most {MAX_HEADER_BYTES} bytes in total, not {size}"
        )
    return made


def is_plain(text: str) -> bool:
    """Return whether a text is printable ASCII on one line."""
    # This takes a tenth of `str.isprintable`'s time; a payment's header has thousands of bytes.
    return text.isascii() and not text.encode().translate(None, _PRINTABLE)


def checked_receipt(found: object) -> PaymentReceipt | None:
    """Return the valid parts of a seller's receipt; None if there are none."""
    if not isinstance(found, PaymentReceipt):
        return None
    signature = found.signature if is_signature(found.signature) else None
    reason = found.reason
    if reason is not None:
        reason = one_line(reason, _MAX_REASON) if isinstance(reason, str) else None
    return PaymentReceipt(signature, reason) if signature or reason else None


def _checked_offer(at: str, offer: object) -> PaymentOffer:
    if isinstance(offer, InvalidRequest):
        raise offer
    if type(offer) is not PaymentOffer:
        raise InvalidRequest(f"{at} must be a PaymentOffer, not {type(offer).__name__}")

    def must(holds: bool, field: str, words: str) -> None:
        if not holds:
            raise InvalidRequest(f"{at}.{field} must be {words}")

    network = offer.network
    named = isinstance(network, str) and (
        network in _NETWORKS or _CHAIN_ID.fullmatch(network) is not None
    )
    must(named, "network", f"one of {', '.join(sorted(_NETWORKS))} or a CAIP-2 id")
    must(offer.asset == "SOL" or is_address(offer.asset), "asset", "SOL or a mint's address")
    must(_within(offer.units, 1, MAX_UNITS), "units", f"an integer of 1 to {MAX_UNITS}")
    must(is_address(offer.pay_to), "pay_to", "a base58 address of 32 bytes")
    modes = offer.modes
    known = isinstance(modes, tuple) and all(isinstance(each, PaymentMode) for each in modes)
    must(known and 0 < len(set(modes)) == len(modes), "modes", "PaymentModes, each once")
    sponsored = PaymentMode.SPONSORED in modes
    must((offer.fee_payer is not None) == sponsored, "fee_payer", "set with SPONSORED, else None")
    if offer.fee_payer is not None:
        must(is_address(offer.fee_payer), "fee_payer", "a base58 address of 32 bytes")
    if offer.memo is not None:
        fits = 0 < _utf8_bytes(offer.memo) <= MAX_MEMO_BYTES
        must(fits, "memo", f"text of 1 to {MAX_MEMO_BYTES} bytes, or None")
    flags = isinstance(offer.nonce_memo, bool) and not (offer.nonce_memo and offer.memo is not None)
    must(flags, "nonce_memo", "a bool, and False if memo is set")
    must(isinstance(offer.opens_accounts, bool), "opens_accounts", "a bool")
    _check_splits(at, offer)
    must(offer.decimals is None or _within(offer.decimals, 0, 255), "decimals", "0 to 255, or None")
    program = offer.token_program
    must(program is None or is_address(program), "token_program", "an address or None")
    limit, price = offer.most_compute_units, offer.most_unit_price
    must(_within(limit, 1, MAX_COMPUTE_UNITS), "most_compute_units", f"1 to {MAX_COMPUTE_UNITS}")
    must(_within(price, 1, MAX_UNITS), "most_unit_price", f"1 to {MAX_UNITS}")
    expires = offer.expires_ms
    must(expires is None or _within(expires, 0, _MAX_MS), "expires_ms", f"0 to {_MAX_MS}, or None")
    resource = offer.resource
    must(resource is None or 0 < _utf8_bytes(resource) <= _MAX_TEXT, "resource", "text or None")
    must(0 <= _utf8_bytes(offer.description) <= _MAX_TEXT, "description", "text")
    return replace(
        offer, raw=_stored_raw(at, offer.raw), description=one_line(offer.description, _MAX_REASON)
    )


def _check_splits(at: str, offer: PaymentOffer) -> None:
    splits = offer.splits
    if not isinstance(splits, tuple) or len(splits) > MAX_SPLITS:
        raise InvalidRequest(f"{at}.splits must be a tuple of at most {MAX_SPLITS}")
    for number, split in enumerate(splits):
        if type(split) is not PaymentSplit or not is_address(split.recipient):
            raise InvalidRequest(f"{at}.splits[{number}] must name a base58 address of 32 bytes")
        if not _within(split.units, 1, MAX_UNITS):
            raise InvalidRequest(f"{at}.splits[{number}].units must be 1 to {MAX_UNITS}")
    if sum(split.units for split in splits) >= offer.units:
        raise InvalidRequest(f"{at}.splits must be less than units in total")


def _stored_raw(at: str, raw: object) -> Mapping[str, Any]:
    """Return `raw` in the form that the store returns, from which headers are always made."""
    try:
        if not isinstance(raw, Mapping):
            raise TypeError
        text = jsontext.dumps(dict(raw))
        if len(text.encode()) > MAX_RAW_BYTES:
            raise InvalidRequest(f"{at}.raw must be at most {MAX_RAW_BYTES} bytes of JSON")
        read: dict[str, Any] = jsontext.loads(text)
        # A value of that depth has at least as many brackets.
        if text.count("{") + text.count("[") > _MAX_DEPTH and _is_deeper(read, _MAX_DEPTH):
            raise ValueError
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        raise InvalidRequest(
            f"{at}.raw must be a JSON object, at most {_MAX_DEPTH} levels deep"
        ) from None
    return read


def _is_deeper(value: object, levels: int) -> bool:
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return levels < 0 or any(_is_deeper(each, levels - 1) for each in inner)


def _within(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _utf8_bytes(text: object) -> int:
    """Return the length of a text in bytes; -1 if it is not a valid text."""
    try:
        return len(text.encode()) if isinstance(text, str) else -1
    except UnicodeEncodeError:  # half a surrogate pair
        return -1
