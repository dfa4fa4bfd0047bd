"""A request over HTTP that a wallet pays for: what is asked, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta

from solward.support.clock import iso
from solward.types.bounds import Address, Items, Name
from solward.types.errors import InvalidRequest
from solward.types.payment import PaymentMode, Served
from solward.types.record import TransactionStatus, present

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_BODY_BYTES: Final = 1 << 20
ANSWER_WAIT_S: Final = 40.0
"""How long the answer to a request with its payment is waited for."""
MAX_FORM: Final = r"[0-9]{1,20}(\.[0-9]{1,20})? [A-Za-z0-9]{1,64}"
"""As every amount: plain digits, no sign, no exponent; then one space and a name."""


class PaymentState(StrEnum):
    """How far a payment is, by the ledger and what the wallet has signed for it."""

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
    """A request that may be paid for; see `SkillContext.pay`.

    Attributes:
        max: the most to pay, `0.05 USDC`: whole units and a symbol or mint; None where the caller
            need not say.
        protocol: the only protocol to pay by; None for any.
    """

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    max: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class PaymentView:
    """A payment as its caller sees it.

    Attributes:
        id: of its transaction's record.
        served: whether the seller gave what was paid for.
        site: host, with the port where it is not 443.
        url: without query and fragment.
        asset: `SOL` or a mint.
        symbol: of the asset, None where it has none that is known.
        amount: whole units.
        pay_to: owner of what received.
        signature: of the transaction; None until it is known.
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
        """The payment as the API shows it; absent fields are omitted."""
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
    """What a site answered, and what was paid for it.

    Attributes:
        status: of HTTP; 0 where the paid request got no answer.
        headers: in the order they came; names as the site spelled them.
        body: at most 1 MiB of it.
        payment: None where the site asked for none.
        truncated: whether the site's body was longer.
    """

    status: int
    headers: Annotated[tuple[tuple[str, str], ...], Items]
    body: Annotated[bytes, Meta(max_length=MAX_BODY_BYTES)]
    payment: PaymentView | None
    truncated: bool = False

    def header(self, name: str) -> str | None:
        """The first header of this name, in any spelling; None where there is none."""
        wanted = name.lower()
        return next((value for each, value in self.headers if each.lower() == wanted), None)


def max_parts(text: object) -> tuple[Decimal, str]:
    """The amount and the symbol or mint of the most to pay, such as `0.05 USDC`.

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
