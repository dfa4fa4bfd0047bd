"""HTTP requests that a wallet pays for."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Self

from solward.resources.declare import Answer, Call, Raw, Request, answer_of, declared, resource
from solward.resources.fields import (
    Address,
    Amount,
    Choice,
    Flag,
    Id,
    Json,
    RawText,
    Schema,
    Shape,
    Text,
    Time,
    Whole,
)
from solward.resources.schema import mapping
from solward.resources.shared import Example, OfWallet
from solward.resources.transactions import Trial
from solward.types.errors import InvalidRequest
from solward.types.manifest import MAX_URL
from solward.types.payment import (
    ANSWER_WAIT_S,
    MAX_BODY_BYTES,
    MAX_FORM,
    METHODS,
    PaymentMode,
    PaymentState,
    PayRequest,
    Served,
)
from solward.types.record import TransactionStatus


class _Method(Choice):
    """An HTTP method, in upper or lower case."""

    def _read(self, value: object) -> Any:
        return Choice._read(self, value.upper() if isinstance(value, str) else value)


class _Headers(Json):
    """HTTP headers: an object of header name -> value."""

    _article = "an object of strings"

    def _read(self, value: object) -> Any:
        headers = Json._read(self, value)
        if not all(isinstance(each, str) for each in headers.values()):
            raise InvalidRequest(f"{self.json} must be {self._article}")
        return headers

    def _bounds(self) -> Schema:
        return {"additionalProperties": Text("A value.").answer_schema()}


@resource
class PaidRequest(Request):
    """An HTTP request that the wallet pays for if the seller demands a payment."""

    left_out: ClassVar = {"dashboard": "the dashboard shows payments, but does not pay"}

    url: str = declared(
        RawText(
            "Complete https URL.",
            most=MAX_URL,
            cli="ADDRESS",
            example="https://api.example.com/weather",
        ),
        secret=True,
    )
    method: str = declared(_Method("HTTP method.", options=METHODS), default="GET")
    headers: Mapping[str, str] | None = declared(
        _Headers("HTTP headers."), default=None, secret=True
    )
    body: str | None = declared(
        RawText("Body of the request, at most 1 MiB of text.", least=0, most=MAX_BODY_BYTES),
        default=None,
        secret=True,
    )
    max: str | None = declared(
        RawText(
            "Maximum to pay, in whole units with a symbol or mint. Required, except from admins.",
            pattern=MAX_FORM,
            example="0.05 USDC",
        ),
        default=None,
    )
    protocol: str | None = declared(
        RawText("Pay by this protocol only, such as x402."), default=None
    )
    dry_run: bool = declared(
        Flag(
            "Return what would be paid, without paying.",
            left_out={"client": "`quote_payment` asks for it"},
        ),
        default=False,
    )

    @property
    def pay_request(self) -> PayRequest:
        """The request in the form that the payment service reads."""
        return PayRequest(
            url=self.url,
            method=self.method,
            headers=self.headers or {},
            body=(self.body or "").encode(),
            max=self.max,
            protocol=self.protocol,
        )


@resource
class ListedPayments(OfWallet):
    """A request for a page of payments."""

    before: str | None = declared(Text("Only payments older than this payment."), default=None)


@resource
class PaymentTerms(Answer):
    """The terms of a payment: recipient, amount and request."""

    protocol: str = declared(
        Text("The plugin that read the offer, such as `x402`.", example="x402")
    )
    mode: str = declared(
        Choice("Who pays the fee, and who sends the transaction.", options=tuple(PaymentMode))
    )
    site: str = declared(Text("Host, with port unless 443.", example="api.example.com"))
    url: str = declared(Text("The URL without query.", example="https://api.example.com/weather"))
    method: str = declared(Choice("The request's method.", options=METHODS))
    asset: str = declared(Text("`SOL` or a mint.", example="SOL"))
    symbol: str | None = declared(Text("The asset's symbol, if known."), default=None)
    amount: Decimal = declared(
        Shape("The price in whole units.", form=Amount("").schema(), example=0.01)
    )
    pay_to: str = declared(Address("The recipient, who owns the account."))


@resource
class PaymentOffer(PaymentTerms):
    """A seller's offer."""

    description: str | None = declared(Text("The seller's description."), default=None)


@resource
class PaymentQuote(Trial):
    """The present price for a request; nothing was stored, reserved or paid."""

    component: ClassVar = "PaymentDryRun"

    status: int = declared(
        Whole(
            "The seller's HTTP status for the request without a payment.",
            least=200,
            most=599,
            example=402,
        )
    )
    offer: PaymentOffer | None = declared(Json("The offer to be paid; null if none is due."))


@resource
class Payment(PaymentTerms):
    """A payment for an HTTP request."""

    component: ClassVar = "Payment"

    id: str = declared(Id("The transaction's record.", example=Example.TRANSACTION))
    wallet_id: str = declared(Id("The wallet that pays.", example=Example.WALLET))
    status: str = declared(Choice("The record's status.", options=tuple(TransactionStatus)))
    state: str = declared(Choice("Progress on the ledger.", options=tuple(PaymentState)))
    served: str = declared(
        Choice("Whether the seller delivered what was paid for.", options=tuple(Served))
    )
    signature: str | None = declared(
        Text("The transaction's signature, base58, once known."), default=None
    )
    timestamp: datetime = declared(Time("When the guardrails judged it."))
    error: str | None = declared(Text("Why the payment is blocked or failed."), default=None)


@resource
class SiteResponse(Answer):
    """A site's answer."""

    status: int = declared(Whole("The HTTP status.", least=200, most=599, example=200))
    headers: Mapping[str, str] = declared(
        Shape(
            "Headers by lower-case name, without cookies and headers of the connection.",
            form=mapping(Text("All values of the header."), ""),
            example={"content-type": "application/json"},
        )
    )
    text: str | None = declared(
        Text("The body, if it is text.", example='{"weather": "sunny"}'),
        named="body",
        default=None,
        secret=True,
    )
    data: bytes | None = declared(
        Text("The body in base64, if not text or encoded."),
        named="bodyBase64",
        read=partial(base64.b64decode, validate=True),
        default=None,
        secret=True,
    )
    truncated: bool = declared(
        Flag("Whether the body was cut at 1 MiB, broke off, or is no longer stored.")
    )


@resource
class PaidAnswer(Answer):
    """A site's answer, and the payment for it."""

    component: ClassVar = "Paid"

    response: SiteResponse | None = declared(Json("The answer; null if none came."))
    payment: Payment | None = declared(Json("The payment; null if none was due."))

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read the answer's JSON; raises `KeyError` if a field is missing."""
        if not raw.keys() >= {"response", "payment"}:
            raise KeyError("response, payment")
        return answer_of(cls, raw)

    @property
    def status(self) -> int:
        """The HTTP status; 0 if the paid request got no answer."""
        return 0 if self.response is None else self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The site's headers, by name in lower case."""
        return {} if self.response is None else self.response.headers

    @property
    def body(self) -> bytes:
        """The site's body, at most 1 MiB of it."""
        if self.response is None:
            return b""
        return self.response.data or (self.response.text or "").encode()

    @property
    def truncated(self) -> bool:
        """True if the site's body was longer, broke off, or is no longer stored."""
        return self.response is not None and self.response.truncated


@resource
class StoredPayment(PaidAnswer):
    """A payment, with the stored part of the site's answer."""

    payment: Payment = declared(Json("The payment."))


PAY = Call(
    "pay",
    "POST /wallets/{wallet_id}/pay",
    "Make a request over HTTP, and pay if the seller asks.",
    PaidAnswer,
    body=PaidRequest,
    name=None,
    about="The service makes the request. If the seller answers 402, the service pays one of the"
    " offers, at most `max`, and repeats the request with the payment. It waits up to"
    f" {ANSWER_WAIT_S:.0f} seconds for that answer, follows no redirect, and pays once, whatever is"
    " answered. `response` is null if no answer came, `payment` if nothing was to be paid.",
)
LIST_PAYMENTS = Call(
    "listPayments",
    "GET /payments",
    "List payments, newest first.",
    Payment,
    query=ListedPayments,
    listed="payments",
    about="A key limited to one wallet gets only that wallet's payments.",
)
GET_PAYMENT = Call(
    "getPayment",
    "GET /payments/{payment_id}",
    "Get a payment and the seller's answer.",
    StoredPayment,
)
