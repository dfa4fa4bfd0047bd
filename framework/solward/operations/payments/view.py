"""What is shown of a payment, and of the answer that was paid for."""

from __future__ import annotations

import base64
import codecs
from typing import Any

from solward.operations.payments.sites import MAX_ANSWER_BYTES
from solward.solana.token_list import TokenList
from solward.types.guardrail import SOL
from solward.types.paid import PaidAnswer, PaymentState, PaymentView
from solward.types.payment import Served
from solward.types.record import TransactionRecord
from solward.vault.store import payments as store
from solward.vault.store.payments import PaymentRow


def payment_view(
    record: TransactionRecord, row: PaymentRow, state: PaymentState, tokens: TokenList
) -> PaymentView:
    """A payment as its callers see it.

    Args:
        record: of the same transaction.
        state: where it stands.
    """
    symbol = SOL if row.asset == SOL else tokens.symbol_of(row.asset)
    return store.payment_view(record, row, state, symbol)


def stored_answer(row: PaymentRow, view: PaymentView) -> PaidAnswer:
    """What a seller answered to a payment; status 0 where no answer came."""
    answer = row.answer
    if answer is None:
        return PaidAnswer(status=0, headers=(), body=b"", payment=view)
    return PaidAnswer(
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        payment=view,
        # What broke off is kept as far as it came, and counts as no answer.
        truncated=len(answer.body) >= MAX_ANSWER_BYTES
        or answer.served is Served.UNKNOWN
        or not answer.is_whole,
    )


def response_json(answer: PaidAnswer) -> dict[str, Any] | None:
    """A seller's answer as the API shows it; null where none came."""
    if not answer.status:
        return None
    headers: dict[str, str] = {}
    for name, value in answer.headers:
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    shown: dict[str, Any] = {"status": answer.status, "headers": headers}
    text = None if "content-encoding" in headers else _text(answer.body, answer.truncated)
    if text is None:
        shown["bodyBase64"] = base64.b64encode(answer.body).decode()
    else:
        shown["body"] = text
    shown["truncated"] = answer.truncated
    return shown


def paid_json(answer: PaidAnswer) -> dict[str, Any]:
    """An answer and what was paid for it, as the API shows them."""
    payment = answer.payment
    return {
        "response": response_json(answer),
        "payment": None if payment is None else payment.to_json(),
    }


def _text(body: bytes, truncated: bool) -> str | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # A character that is cut at the end is left out.
        return decoder.decode(body, final=not truncated)
    except UnicodeDecodeError:
        return None
