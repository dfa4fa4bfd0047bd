"""The types of payments. Payment protocols use a seller's offers, from a 402 answer, and the proof
of a payment. Callers use an HTTP request that a wallet pays for, and its result.

A protocol reads and writes HTTP; it neither makes nor signs transactions. Amounts are integers of
the asset's smallest unit, addresses base58 text, times milliseconds since the Unix epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta

from solward.support import jsontext
from solward.support.clock import iso
from solward.types.bounds import Address, Items, Name, Natural, WireBytes
from solward.types.errors import InvalidRequest
from solward.types.record import TransactionStatus, drop_none

MAX_UNITS: Final = 2**64 - 1
"""The maximum amount, which is that of the token programs."""


class PaymentMode(StrEnum):
    """A mode of payment: determines who pays the network fee and who sends the transaction."""

    SPONSORED = "sponsored"
    """A sponsor pays the fee, signs first and sends: the seller gets the wallet's signature."""
    UNSPONSORED = "unsponsored"
    """The wallet pays the fee, and the seller sends: the seller gets the whole transaction."""
    PUSH = "push"
    """The wallet pays the fee and sends; the seller gets the signature once it has landed."""


class Served(StrEnum):
    """The seller's delivery of what was paid for: made, not made, or not known."""

    UNKNOWN = "unknown"
    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True)
class PaymentSpec:
    """A protocol's declaration; `name` equals the entry point's name.

    It has no manifest, because it only converts its arguments, without network, secret or file.
    """

    name: Name


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer of a seller.

    Attributes:
        url: the requested URL, without a fragment.
        method: the request's method, in capitals.
        headers: in the order received; names as the seller spelled them.
        body: the body, up to the maximum size that the service reads.
    """

    url: str
    method: Name
    status: int
    headers: Annotated[tuple[tuple[str, str], ...], Items] = ()
    body: Annotated[bytes, Meta(max_length=4 << 20)] = b""

    def header(self, name: str) -> str | None:
        """Return the first header of this name, in any case; None if there is none."""
        wanted = name.lower()
        return next((value for each, value in self.headers if each.lower() == wanted), None)

    def all_headers(self, name: str) -> tuple[str, ...]:
        """Return all headers with this name, in any case."""
        wanted = name.lower()
        return tuple(value for each, value in self.headers if each.lower() == wanted)


@dataclass(frozen=True, slots=True)
class PaymentSplit:
    """A part of a payment that goes to another recipient than `PaymentOffer.pay_to`."""

    recipient: Address
    units: Natural


@dataclass(frozen=True, slots=True)
class PaymentOffer:
    """One offer of a seller. All its fields are the seller's statements, and not verified.

    Attributes:
        network: `mainnet-beta`, `devnet`, `testnet`, `localnet`, or another network's CAIP-2 id.
        asset: `SOL` or a mint.
        units: the whole amount that leaves the wallet, `splits` included.
        pay_to: the recipient: the owner of the receiving account, not a token account.
        modes: the modes of payment that the seller accepts.
        fee_payer: the address that pays a sponsored payment's fee; None if nobody sponsors it.
        memo: the required text of the memo; None if the seller requires none.
        nonce_memo: whether a memo that the seller did not ask for may make equal payments distinct;
            otherwise they differ by their compute unit limits.
        splits: further recipients and their amounts.
        opens_accounts: whether the seller wants accounts opened at the payer's cost.
        decimals: the mint's decimals; None if the seller does not state them.
        token_program: the mint's token program; None if the seller does not state it.
        most_compute_units: the maximum compute unit limit that the seller accepts.
        most_unit_price: the maximum price of a compute unit, in micro-lamports.
        expires_ms: the time until which the seller accepts a payment; None if not stated.
        resource: the URL that the offer is for; None if not stated.
        description: what is sold; only displayed to people.
        raw: the protocol's own data, which it gets back unchanged; JSON-able.
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
    """The proof of a payment, which is sent to the seller.

    Attributes:
        payer: the wallet's address.
        wire: the transaction, if it is sent to the seller in this `mode`; a sponsor's signature is
            zeros.
        signature: the landed transaction's signature (base58), if `mode` is `push`.
    """

    mode: PaymentMode
    payer: Address
    wire: WireBytes | None = field(default=None, repr=False)
    signature: Name | None = None


@dataclass(frozen=True, slots=True)
class PaymentReceipt:
    """A seller's statement about a payment, which only the ledger can confirm.

    Attributes:
        signature: the transaction's signature (base58); None if the seller states none.
        reason: the seller's reason for refusing the payment; None if it did not refuse.
    """

    signature: Name | None = None
    reason: str | None = None


_FIELDS: Final = tuple(each.name for each in fields(PaymentOffer))


def offer_json(offer: PaymentOffer) -> dict[str, Any]:
    """Return an offer as JSON that can be stored; `read_offer` returns an equal offer from it."""
    return {name: getattr(offer, name) for name in _FIELDS} | {
        "modes": [mode.value for mode in offer.modes],
        "splits": [asdict(each) for each in offer.splits],
        "raw": dict(offer.raw),
    }


def read_offer(stored: Mapping[str, Any]) -> PaymentOffer:
    """Return the offer from the JSON that `offer_json` returned."""
    splits = tuple(PaymentSplit(**each) for each in stored["splits"])
    modes = tuple(PaymentMode(each) for each in stored["modes"])
    return PaymentOffer(**{**stored, "splits": splits, "modes": modes})


def read_units(value: object, field: str) -> int:
    """Return the smallest units from a protocol's text. It may have only digits, so that every
    program reads the same number.

    Raises:
        InvalidRequest: it has another form, or is more than `MAX_UNITS`; names `field`.
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
    """Parse JSON that a seller, a venue or a model sent; fractions are Decimal.

    Args:
        any_value: also accept half surrogate pairs and long numbers; the caller must check them.

    Raises:
        InvalidRequest: it is not JSON, is longer than `max_bytes`, has a duplicate key, half a
            surrogate pair, more than 64 levels or a number of more than 400 digits; names `field`.
    """
    try:
        return jsontext.read(text, max_bytes=max_bytes, has_nul=True, any_value=any_value)
    except (jsontext.DuplicateKey, jsontext.UnfitValue) as error:
        raise InvalidRequest(f"{field}: {error}") from None
    except ValueError:
        raise InvalidRequest(f"{field} must be JSON in UTF-8") from None


def write_json(value: object, *, ascii_only: bool = False) -> str:
    """Write JSON for `read_json`; equal values give the same text. `ascii_only` escapes all
    characters that are not ASCII."""
    return jsontext.dumps(value, ascii_only=ascii_only)


METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_BODY_BYTES: Final = 1 << 20
ANSWER_WAIT_S: Final = 40.0
"""The seconds to wait for the answer to a request with its payment."""
MAX_FORM: Final = r"[0-9]{1,20}(\.[0-9]{1,20})? [A-Za-z0-9]{1,64}"
"""Plain digits without sign or exponent, like every amount; then one space and a name."""


_HeaderText = Annotated[str, Meta(max_length=16 << 10)]


class PaymentState(StrEnum):
    """The state of a payment, derived from the ledger and from the wallet's signature."""

    RESERVED = "reserved"
    """Its amount is counted, and nothing was sent to the seller yet."""
    HANDED_OVER = "handed_over"
    """The seller has, or may have, what it needs to collect the payment."""
    LANDED = "landed"
    """The payment landed: the seller was paid."""
    LANDED_ERROR = "landed_error"
    """Its transaction failed on the ledger: nothing was paid."""
    EXPIRED = "expired"
    """Its transaction can no longer land."""


@dataclass(frozen=True, slots=True)
class PayRequest:
    """An HTTP request that a wallet may pay for; see `SkillContext.pay`.

    Attributes:
        max: the maximum to pay: whole units and a symbol or mint, `0.05 USDC`; None if the caller
            may omit it.
        body: at most as large as the body of a request to the service itself.
        protocol: the only payment protocol to use; None for any.
    """

    url: _HeaderText = field(repr=False)
    method: Annotated[str, Meta(max_length=20)] = "GET"
    headers: Annotated[Mapping[Name, _HeaderText], Meta(max_length=128)] = field(
        default_factory=dict, repr=False
    )
    body: Annotated[bytes, Meta(max_length=64 << 10)] = field(default=b"", repr=False)
    max: Name | None = None
    protocol: Name | None = None


@dataclass(frozen=True, slots=True)
class PaymentView:
    """A payment as its caller sees it.

    Attributes:
        id: id of its transaction's record.
        served: `yes`, `no` or `unknown`: whether the seller answered with what was paid for.
        site: host, with the port if it is not 443.
        url: without query and fragment.
        asset: `SOL` or a mint.
        symbol: the asset's symbol, None if it is not known.
        amount: whole units.
        pay_to: owner of the account that received.
        signature: the transaction's signature, None until it is known.
        created_ms: milliseconds since the Unix epoch.
        error: why it is blocked or failed, else None.
    """

    id: Name
    wallet_id: Name
    status: TransactionStatus
    state: PaymentState
    served: Served
    protocol: Name
    mode: PaymentMode
    site: str
    url: str
    method: Name
    asset: Address
    amount: Decimal
    pay_to: Address
    created_ms: int
    symbol: Name | None = None
    signature: Name | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the API's JSON of the payment; absent fields are omitted."""
        return drop_none(
            id=self.id,
            walletId=self.wallet_id,
            status=self.status.value,
            state=self.state.value,
            served=self.served.value,
            protocol=self.protocol,
            mode=self.mode.value,
            site=self.site,
            url=self.url,
            method=self.method,
            asset=self.asset,
            symbol=self.symbol,
            amount=self.amount,
            payTo=self.pay_to,
            signature=self.signature,
            timestamp=iso(self.created_ms),
            error=self.error,
        )


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """A site's answer and the payment for it. `header(name)` returns the first header of a name.

    Attributes:
        status: HTTP status; 0 if the paid request got no answer.
        headers: in the order they came, with names as the site spelled them.
        body: at most 1 MiB.
        payment: None if the site asked for no payment.
        truncated: whether the site's body was longer.
    """

    status: int
    headers: Annotated[tuple[tuple[str, str], ...], Items]
    body: Annotated[bytes, Meta(max_length=MAX_BODY_BYTES)]
    payment: PaymentView | None
    truncated: bool = False

    def header(self, name: str) -> str | None:
        """Return the first header of this name, in any case; None if there is none."""
        wanted = name.lower()
        return next((value for each, value in self.headers if each.lower() == wanted), None)


def max_parts(text: object) -> tuple[Decimal, str]:
    """Return the amount, and the symbol or mint, from a maximum such as `0.05 USDC`.

    Raises:
        InvalidRequest: it does not have that form.
    """
    found = re.fullmatch(MAX_FORM, text, re.ASCII) if isinstance(text, str) else None
    amount, _, asset = found[0].partition(" ") if found else ("0", "", "")
    if not Decimal(amount):
        raise InvalidRequest(
            "max must be an amount and a symbol or mint with one space between, such as"
            " '0.05 USDC', and more than 0"
        )
    return Decimal(amount), asset
