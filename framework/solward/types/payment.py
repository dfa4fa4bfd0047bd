"""The types of payments: a seller's offers in a 402 answer and the proof of a payment, for payment
protocols; and a request over HTTP that a wallet pays for, with its result.

A protocol reads and writes HTTP; it makes no bytes of a transaction and signs nothing. Amounts are
integers of the asset's smallest unit, addresses base58 text, times milliseconds since the Unix
epoch.
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
from solward.types.record import TransactionStatus, present

MAX_UNITS: Final = 2**64 - 1
"""As the token programs count."""


class PaymentMode(StrEnum):
    """A way to pay: it says who pays the network fee and who sends the transaction."""

    SPONSORED = "sponsored"
    """Somebody else pays the fee, signs first and sends: the wallet's signature is handed over."""
    UNSPONSORED = "unsponsored"
    """The wallet pays the fee, and the seller sends: the whole transaction is handed over."""
    PUSH = "push"
    """The wallet pays the fee and sends; the seller is shown the signature of what has landed."""


class Served(StrEnum):
    """The seller's delivery: given, not given, or not known."""

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
        """Return the first header of this name, in any case; None if there is none."""
        wanted = name.lower()
        return next((value for each, value in self.headers if each.lower() == wanted), None)

    def all_headers(self, name: str) -> tuple[str, ...]:
        """Return every header of this name, in any spelling."""
        wanted = name.lower()
        return tuple(value for each, value in self.headers if each.lower() == wanted)


@dataclass(frozen=True, slots=True)
class PaymentSplit:
    """A part of a payment that goes to another recipient than `PaymentOffer.pay_to`."""

    recipient: Address
    units: Natural


@dataclass(frozen=True, slots=True)
class PaymentOffer:
    """One way to pay that a seller offers; its fields are only the seller's word.

    Attributes:
        network: `mainnet-beta`, `devnet`, `testnet`, `localnet`, or the CAIP-2 id of another.
        asset: `SOL` or a mint.
        units: all that leaves, `splits` included.
        pay_to: owner of what receives; not a token account.
        modes: that the seller takes.
        fee_payer: who pays the fee of a sponsored payment; None if there is no such.
        memo: what the memo must be; None if the seller wants none in particular.
        nonce_memo: whether a memo that the seller did not ask for may make equal payments distinct;
            otherwise they differ by their compute unit limits.
        splits: further recipients.
        opens_accounts: whether the seller wants accounts opened at the payer's cost.
        decimals: of the mint, as the seller says; None if it does not.
        token_program: likewise.
        most_compute_units: the highest limit of compute units that the seller takes.
        most_unit_price: the highest price of one, in micro-lamports.
        expires_ms: after that the seller takes no payment for it; None if it does not say.
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
    """The proof of a payment that the seller sees.

    Attributes:
        payer: the wallet's address.
        wire: the transaction that is handed over, if `mode` hands one over; a sponsor's
            signature is zeros.
        signature: base58 of what has landed, if `mode` is `push`.
    """

    mode: PaymentMode
    payer: Address
    wire: WireBytes | None = field(default=None, repr=False)
    signature: Name | None = None


@dataclass(frozen=True, slots=True)
class PaymentReceipt:
    """A seller's statement about a payment: a hint that only the ledger can confirm.

    Attributes:
        signature: of the transaction, base58; None if the seller names none.
        reason: why it was refused, as the seller says; None if it was not.
    """

    signature: Name | None = None
    reason: str | None = None


_FIELDS: Final = tuple(each.name for each in fields(PaymentOffer))


def offer_json(offer: PaymentOffer) -> dict[str, Any]:
    """Return an offer as JSON; `read_offer` makes an equal one of it, also after it was stored."""
    return {name: getattr(offer, name) for name in _FIELDS} | {
        "modes": [mode.value for mode in offer.modes],
        "splits": [asdict(each) for each in offer.splits],
        "raw": dict(offer.raw),
    }


def read_offer(stored: Mapping[str, Any]) -> PaymentOffer:
    """Return the offer that `offer_json` gave."""
    splits = tuple(PaymentSplit(**each) for each in stored["splits"])
    modes = tuple(PaymentMode(each) for each in stored["modes"])
    return PaymentOffer(**{**stored, "splits": splits, "modes": modes})


def read_units(value: object, field: str) -> int:
    """Return an amount in smallest units as protocols write it: digits, and nothing that a parser
    of another program would read otherwise.

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
    """Parse JSON that a seller, a venue or a model sent; fractions are Decimal.

    Args:
        any_value: takes halves of surrogate pairs and long numbers too, which the caller looks at.

    Raises:
        InvalidRequest: it is none, is longer than `max_bytes`, has a key twice, half of a surrogate
            pair, more than 64 levels or a number of more than 400 digits; names `field`.
    """
    try:
        return jsontext.read(text, max_bytes=max_bytes, has_nul=True, any_value=any_value)
    except (jsontext.DuplicateKey, jsontext.UnfitValue) as error:
        raise InvalidRequest(f"{field}: {error}") from None
    except ValueError:
        raise InvalidRequest(f"{field} must be JSON in UTF-8") from None


def write_json(value: object, *, ascii_only: bool = False) -> str:
    """Write JSON as `read_json` reads it: equal values give the same text. `ascii_only` escapes
    all other characters."""
    return jsontext.dumps(value, ascii_only=ascii_only)


METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_BODY_BYTES: Final = 1 << 20
ANSWER_WAIT_S: Final = 40.0
"""How long the answer to a request with its payment is waited for."""
MAX_FORM: Final = r"[0-9]{1,20}(\.[0-9]{1,20})? [A-Za-z0-9]{1,64}"
"""As every amount: plain digits, no sign, no exponent; then one space and a name."""


_HeaderText = Annotated[str, Meta(max_length=16 << 10)]


class PaymentState(StrEnum):
    """The progress of a payment, by the ledger and by the wallet's signature."""

    RESERVED = "reserved"
    """Its amount counts; the seller was given nothing yet."""
    HANDED_OVER = "handed_over"
    """The seller has, or may have, what it needs to take the money."""
    LANDED = "landed"
    """The seller was paid."""
    LANDED_ERROR = "landed_error"
    """Its transaction failed on the ledger: nothing was paid."""
    EXPIRED = "expired"
    """It can no longer land."""


@dataclass(frozen=True, slots=True)
class PayRequest:
    """A request that a wallet may pay for; see `SkillContext.pay`.

    Attributes:
        max: the most to pay, `0.05 USDC`: whole units and a symbol or mint; None if the caller
            need not say.
        body: as large as that of a request to the service itself.
        protocol: the only protocol to pay by; None for any.
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
        """Return the payment as the API shows it; absent fields are omitted."""
        return present(
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
    """Return the amount and the symbol or mint of the most to pay, such as `0.05 USDC`.

    Raises:
        InvalidRequest: it is not of that form.
    """
    found = re.fullmatch(MAX_FORM, text, re.ASCII) if isinstance(text, str) else None
    amount, _, asset = found[0].partition(" ") if found else ("0", "", "")
    if not Decimal(amount):
        raise InvalidRequest(
            "max must be an amount and a symbol or mint with one space between, such as"
            " '0.05 USDC', and more than 0"
        )
    return Decimal(amount), asset
