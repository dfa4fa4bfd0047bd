"""The types of payment protocols: what a seller's 402 answer offers, and how a payment is shown.

A protocol reads and writes HTTP; it makes no bytes of a transaction and signs nothing. Amounts are
integers of the asset's smallest unit, addresses base58 text, times milliseconds since the Unix
epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta

from solward.support import jsontext
from solward.types.bounds import Address, Items, Name, Natural, WireBytes
from solward.types.errors import InvalidRequest

MAX_UNITS: Final = 2**64 - 1
"""As the token programs count."""


class PaymentMode(StrEnum):
    """Who pays the network fee, and who sends the transaction."""

    SPONSORED = "sponsored"
    """Somebody else pays the fee, signs first and sends: the wallet's signature is handed over."""
    UNSPONSORED = "unsponsored"
    """The wallet pays the fee, and the seller sends: the whole transaction is handed over."""
    PUSH = "push"
    """The wallet pays the fee and sends; the seller is shown the signature of what has landed."""


class Served(StrEnum):
    """Whether the seller gave what was paid for."""

    UNKNOWN = "unknown"
    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True)
class PaymentSpec:
    """A protocol's declaration; `name` equals the entry point's name.

    It has no manifest: it reads what it is given, and gets no network, secret or file.
    """

    name: Name


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer of a seller.

    Attributes:
        url: that was requested, without a fragment.
        method: of the request, in capitals.
        headers: in the order they came; names as the seller spelled them.
        body: at most what the service reads of an answer.
    """

    url: str
    method: Name
    status: int
    headers: Annotated[tuple[tuple[str, str], ...], Items] = ()
    body: Annotated[bytes, Meta(max_length=4 << 20)] = b""

    def header(self, name: str) -> str | None:
        """The first header of this name, in any spelling; None where there is none."""
        wanted = name.lower()
        return next((value for each, value in self.headers if each.lower() == wanted), None)

    def all_headers(self, name: str) -> tuple[str, ...]:
        """Every header of this name, in any spelling."""
        wanted = name.lower()
        return tuple(value for each, value in self.headers if each.lower() == wanted)


@dataclass(frozen=True, slots=True)
class PaymentSplit:
    """A part of a payment that goes to somebody beside `PaymentOffer.pay_to`."""

    recipient: Address
    units: Natural


@dataclass(frozen=True, slots=True)
class PaymentOffer:
    """One way to pay that a seller offers; what it says is the seller's word.

    Attributes:
        network: `mainnet-beta`, `devnet`, `testnet`, `localnet`, or the CAIP-2 id of another.
        asset: `SOL` or a mint.
        units: all that leaves, `splits` included.
        pay_to: owner of what receives; not a token account.
        modes: that the seller takes.
        fee_payer: who pays the fee of a sponsored payment; None where there is no such.
        memo: what the memo must be; None where the seller wants none in particular.
        nonce_memo: whether a memo that the seller did not ask for may make equal payments distinct;
            otherwise they differ by their compute unit limits.
        splits: further recipients.
        opens_accounts: whether the seller wants accounts opened at the payer's cost.
        decimals: of the mint, as the seller says; None where it does not.
        token_program: likewise.
        most_compute_units: the highest limit of compute units that the seller takes.
        most_unit_price: the highest price of one, in micro-lamports.
        expires_ms: after that the seller takes no payment for it; None where it does not say.
        resource: the address that the offer is for, as the seller says; None likewise.
        description: what is sold, as the seller says; shown to people, and believed by nobody.
        raw: the protocol's own, given back to it unchanged; JSON-able.
    """

    network: Name
    asset: Address
    units: Natural
    pay_to: Address
    modes: Annotated[tuple[PaymentMode, ...], Meta(max_length=8)]
    fee_payer: Address | None = None
    memo: str | None = None
    nonce_memo: bool = False
    splits: Annotated[tuple[PaymentSplit, ...], Meta(max_length=64)] = ()
    opens_accounts: bool = False
    decimals: int | None = None
    token_program: Address | None = None
    most_compute_units: Natural = 1_400_000
    most_unit_price: Natural = 5_000_000
    expires_ms: int | None = None
    resource: str | None = None
    description: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaymentProof:
    """What is shown to the seller.

    Attributes:
        payer: the wallet's address.
        wire: the transaction that is handed over, where `mode` hands one over; a sponsor's
            signature is zeros.
        signature: base58 of what has landed, where `mode` is `push`.
    """

    mode: PaymentMode
    payer: Address
    wire: WireBytes | None = field(default=None, repr=False)
    signature: Name | None = None


@dataclass(frozen=True, slots=True)
class PaymentReceipt:
    """What a seller says of a payment; a hint, which the ledger confirms or does not.

    Attributes:
        signature: of the transaction, base58; None where the seller names none.
        reason: why it was refused, as the seller says; None where it was not.
    """

    signature: Name | None = None
    reason: str | None = None


_FIELDS: Final = tuple(each.name for each in fields(PaymentOffer))


def offer_json(offer: PaymentOffer) -> dict[str, Any]:
    """An offer as JSON; `read_offer` makes an equal one of it, also after it was stored."""
    return {name: getattr(offer, name) for name in _FIELDS} | {
        "modes": [mode.value for mode in offer.modes],
        "splits": [asdict(each) for each in offer.splits],
        "raw": dict(offer.raw),
    }


def read_offer(stored: Mapping[str, Any]) -> PaymentOffer:
    """The offer that `offer_json` gave."""
    splits = tuple(PaymentSplit(**each) for each in stored["splits"])
    modes = tuple(PaymentMode(each) for each in stored["modes"])
    return PaymentOffer(**{**stored, "splits": splits, "modes": modes})


def read_units(value: object, field: str) -> int:
    """An amount in smallest units as protocols write it: digits, and nothing that a parser of
    another program would read otherwise.

    Raises:
        InvalidRequest: it is anything else, or beyond `MAX_UNITS`; names `field`.
    """
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and value[0] != "0"
    if digits and len(str(value)) <= _MOST_DIGITS and int(str(value)) <= MAX_UNITS:
        return int(str(value))
    raise InvalidRequest(f"{field} must be digits, from 1 to {MAX_UNITS}, without a leading zero")


_MOST_DIGITS: Final = 20


MAX_JSON_BYTES: Final = 64 << 10


def read_json(
    text: str | bytes, field: str, max_bytes: int = MAX_JSON_BYTES, *, any_value: bool = False
) -> Any:
    """Parses JSON that a seller, a venue or a model sent; fractions are Decimal.

    Args:
        any_value: takes halves of surrogate pairs and long numbers too, which the caller looks at.

    Raises:
        InvalidRequest: it is none, is longer than `max_bytes`, has a key twice, half of a surrogate
            pair, more than 64 levels or a number of more than 400 digits; names `field`.
    """
    try:
        return jsontext.read(text, max_bytes=max_bytes, has_nul=True, any_value=any_value)
    except (jsontext.DuplicateKey, jsontext.Unfit) as error:
        raise InvalidRequest(f"{field}: {error}") from None
    except ValueError:
        raise InvalidRequest(f"{field} must be JSON in UTF-8") from None


def write_json(value: object, *, ascii_only: bool = False) -> str:
    """JSON as `read_json` reads it: equal values are the same text. `ascii_only` writes all other
    characters as escapes."""
    return jsontext.dumps(value, ascii_only=ascii_only)
