"""`client.payments`, and what paying for a request over HTTP answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Self

from solward.client.arguments import segment
from solward.client.http import Http
from solward.client.models import DryRun
from solward.resources.answers import Answer, Raw, answer_of


@dataclass(frozen=True, slots=True)
class Payment(Answer):
    """A payment for a request over HTTP; `status` is that of its transaction's record.

    Attributes:
        id: of that record.
        state: `reserved`, `handed_over`, `landed`, `landed_error` or `expired`.
        served: whether the seller gave what was paid for: `yes`, `no` or `unknown`.
        protocol: the plugin that read the seller's offer, such as `x402`.
        mode: `sponsored`, `unsponsored` or `push`.
        site: host, with the port where it is not 443.
        url: without its query.
        asset: `SOL` or a mint.
        symbol: of the asset, where it is known.
        amount: whole units.
        pay_to: the owner of what receives.
        signature: of the transaction, once it is known.
        error: why it is blocked or failed.
    """

    id: str
    wallet_id: str
    status: str
    state: str
    served: str
    protocol: str
    mode: str
    site: str
    url: str
    method: str
    asset: str
    symbol: str | None
    amount: Decimal
    pay_to: str
    signature: str | None
    timestamp: datetime
    error: str | None


@dataclass(frozen=True, slots=True)
class PaidAnswer(Answer):
    """What a site answered, and what was paid for it.

    Attributes:
        status: of HTTP; 0 where the paid request got no answer.
        headers: by name in lower case.
        body: at most 1 MiB of it.
        truncated: the site's body was longer, broke off, or is no longer kept.
        payment: None where the site asked for none.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    truncated: bool
    payment: Payment | None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the API's JSON."""
        response = raw["response"] or {"status": 0, "headers": {}, "body": "", "truncated": False}
        encoded = response.get("bodyBase64")
        text = response["body"] if encoded is None else ""
        return answer_of(
            cls,
            raw,
            status=response["status"],
            headers=dict(response["headers"]),
            body=text.encode() if encoded is None else base64.b64decode(encoded, validate=True),
            truncated=response["truncated"],
        )


@dataclass(frozen=True, slots=True)
class PaymentQuote(DryRun):
    """What a request would cost now; nothing was stored, reserved or paid.

    Attributes:
        allowed: whether it would be paid, without asking a person.
        held: whether a person would be asked.
        rule: the rule that refuses it.
        reason: why it is not allowed.
        status: of the site's answer to the request without a payment.
        offer: what would be paid, as a payment's JSON; None where the site asks for nothing.
    """

    status: int
    offer: Mapping[str, Any] | None


class Payments:
    """The payments of all wallets."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self, *, wallet_id: str | None = None, limit: int = 50, before: str | None = None
    ) -> tuple[Payment, ...]:
        """Newest first; `before` is the id of a payment and gives older ones."""
        query = {"walletId": wallet_id, "limit": limit, "before": before}
        return self._http.read_list(
            Payment.of, await self._http.get("/payments", query), "payments"
        )

    async def get(self, payment_id: str) -> PaidAnswer:
        """One payment with the answer that is kept of it; raises `NotFoundError`."""
        raw = await self._http.get(f"/payments/{segment(payment_id, 'payment_id')}")
        return self._http.read(PaidAnswer.of, raw)
