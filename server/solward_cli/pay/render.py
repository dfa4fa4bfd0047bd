"""Payments as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from solward_cli.render import amount, fields, moment, plain, short, status, table, verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import PaidAnswer, Payment, PaymentQuote
    from solward.resources.payments import PaymentTerms, StoredPayment

_MOST_TEXT = 10_000


def render_payments(payments: Sequence[Payment]) -> RenderableType:
    """A table of payments."""
    rows = [
        (
            moment(each.timestamp),
            short(each.id),
            status(each.status),
            each.served,
            price(each),
            plain(each.site),
        )
        for each in payments
    ]
    columns = ("TIME (UTC)", "ID", "STATUS", "SERVED", ">PAID", "SITE")
    return table(columns, rows, "Nothing was paid for.")


def render_payment(answer: StoredPayment) -> RenderableType:
    """All fields of a payment, and what the site answered, as text."""
    payment = answer.payment
    return fields(
        {
            "Payment": payment.id,
            "Request": f"{payment.method} {payment.url}",
            "Amount": price(payment),
            "Asset": payment.asset,
            "To": payment.pay_to,
            "Status": status(payment.status),
            "State": payment.state,
            "Served": payment.served,
            "Why": payment.error,
            "Signature": payment.signature,
            "Protocol": f"{payment.protocol}, {payment.mode}",
            "Time": f"{moment(payment.timestamp)} UTC",
            "Wallet": payment.wallet_id,
            "Answered": f"status {answer.status}" if answer.status else "no answer came",
            "Headers": "\n".join(": ".join(each) for each in answer.headers.items()) or None,
            "Body": _text(answer.body) or None,
        }
    )


def render_quote(quote: PaymentQuote) -> RenderableType:
    """What would be paid, and whether it would be."""
    offer = quote.offer
    return fields(
        {
            "Dry run": verdict(quote.allowed, quote.held),
            "Rule": quote.rule,
            "Why": quote.reason,
            "Answered": f"status {quote.status} to the request without a payment",
            "Price": f"{price(offer)} to {offer.pay_to}" if offer else "none is asked for",
            "Protocol": offer and offer.protocol,
            "Mode": offer and offer.mode,
            "Sold": offer and offer.description,
        }
    )


def line(answer: PaidAnswer) -> str:
    """What was paid, and what came of it, on one line."""
    payment = answer.payment
    answered = f"Status {answer.status}" if answer.status else "No answer came"
    if payment is None:
        return f"{answered}; nothing was paid."
    told = {
        "confirmed": "Paid",
        "pending": "Handed over, not on the ledger yet:",
    }.get(payment.status, "Not paid:")
    signature = "" if payment.signature is None else f", signature {payment.signature}"
    return (
        f"{answered}, served: {payment.served}. {told} {price(payment)} to"
        f" {payment.pay_to} by {payment.protocol}, payment {payment.id}{signature}"
    )


def price(payment: PaymentTerms) -> str:
    """The amount with its unit."""
    return f"{amount(payment.amount)} {payment.symbol or short(payment.asset)}"


def _text(body: bytes) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"{len(body):,} bytes that are no text"
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… ({len(body):,} bytes)"
