"""Requests over HTTP that a wallet pays for: made, listed, and read with what was answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quart import Blueprint, Response

from solward.operations.payments.pay import ANSWER_WAIT_S, paid_json
from solward.operations.payments.requests import METHODS, pay_request
from solward.resources.examples import WALLET
from solward.resources.fields import Schema, nullable
from solward.resources.schema import (
    JSON,
    address,
    array,
    choice,
    examples,
    flag,
    identifier,
    mapping,
    number,
    request_object,
    response_object,
    text,
    timestamp,
    whole,
)
from solward.types.errors import NotFound, TransactionError
from solward.types.paid import PaidAnswer, PaymentState, PayRequest
from solward.types.payment import PaymentMode, Served
from solward.types.record import TransactionStatus
from solward.types.roles import Role
from solward.vault.money.request import IdempotencyKey
from solward.vault.store.idempotency import StoredResponse
from solward_server.http.auth import Access, caller, keyed
from solward_server.http.body import (
    json_response,
    query_limit,
    query_text,
    read_body,
    wants_dry_run,
)
from solward_server.http.errors import error_response
from solward_server.http.idempotency import (
    finish,
    first_use,
    idempotency_key,
    mark_replayed,
)
from solward_server.http.money_response import replayed
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import SCHEMAS
from solward_server.openapi.errors import (
    BLOCKED,
    FAILED,
    IN_FLIGHT,
    MISMATCH,
    NO_WALLET,
    TOO_MANY,
)
from solward_server.openapi.money import REPLAYED
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import (
    BEFORE_RECORD,
    DRY_RUN,
    DRY_RUN_FLAG,
    IDEMPOTENCY_KEY,
    LIMIT,
    USDC,
    WALLET_ID,
    path_parameter,
    query,
)

NO_PAYMENT = "Payment not found"


def blueprint(context: RouteContext) -> Blueprint:
    """`POST /wallets/:id/pay`, `GET /payments` and `GET /payments/:id`."""
    routes = Blueprint("payments", __name__)
    service = context.service

    @routes.post("/wallets/<wallet_id>/pay")
    @keyed(Role.POLICY)
    async def pay(wallet_id: str) -> Response:
        body = await read_body()
        await context.wallet(wallet_id)
        # Before anything else is read: what may mean a trial pays nothing.
        is_trial = wants_dry_run(body)
        # Only a checked body is small enough to be hashed for its key.
        asked = pay_request(body)
        # A dry run does not use the key, but refuses a malformed one.
        key = idempotency_key(body)
        if is_trial:
            # The seller is asked all the same.
            await context.count_request()
            quote = await service.operations.quote_payment(wallet_id, caller().actor(), asked)
            return json_response(quote.to_json())
        if key is not None:
            stored = await first_use(service.database, key)
            known = None if stored is None else await _known(context, key, stored, asked)
            if known is not None:
                return known
        await context.count_request()
        actor = replace(caller().actor(), idempotency=key)
        try:
            answer = await service.operations.pay(wallet_id, actor, asked)
        except TransactionError as error:
            return await _refused(context, key, error)
        return json_response(paid_json(answer))

    @routes.get("/payments")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        wallet_id = query_text("walletId")
        if wallet_id is not None:
            await context.wallet(wallet_id)
        found = await service.payments.listed(
            caller().wallet_id or wallet_id, limit=query_limit(), before=query_text("before")
        )
        return {"payments": [each.to_json() for each in found]}

    @routes.get("/payments/<payment_id>")
    @keyed(Role.READ)
    async def one(payment_id: str) -> dict[str, Any]:
        found: PaidAnswer = await service.payments.stored(payment_id)
        of = None if found.payment is None else found.payment.wallet_id
        if caller().wallet_id not in (None, of):
            raise NotFound(NO_PAYMENT)
        return paid_json(found)

    return routes


async def _known(
    context: RouteContext, key: IdempotencyKey, stored: StoredResponse, asked: PayRequest
) -> Response | None:
    """The answer of a key that was used; None where a person approved it since.

    A seller's answer is not kept with the key, but with its payment.
    """
    if stored.body is not None:
        return await replayed(context, stored)
    # Raises `Held` while a person is asked.
    payment = await context.service.payment_of(stored.transaction_id)
    if payment is None:
        return None
    try:
        answer = await context.service.payments.again(payment, asked)
    except TransactionError as error:
        return mark_replayed(await _refused(context, key, error))
    return mark_replayed(json_response(paid_json(answer)))


async def _refused(
    context: RouteContext, key: IdempotencyKey | None, error: TransactionError
) -> Response:
    response = error_response(error)
    return response if key is None else await finish(context.service.database, key, response)


PAYMENT: dict[str, Schema] = {
    "id": identifier("Of its transaction's record."),
    "walletId": identifier("The wallet that pays."),
    "status": choice("The record's.", *TransactionStatus),
    "state": choice("How far it is, by the ledger.", *PaymentState),
    "served": choice("Whether the seller gave what was paid for.", *Served),
    "protocol": text("The plugin that read the offer, such as `x402`."),
    "mode": choice("Who pays the network fee, and who sends.", *PaymentMode),
    "site": text("Host, and port where it is not 443."),
    "url": text("Without its query."),
    "method": choice("Of the request.", *METHODS),
    "asset": text("`SOL` or a mint."),
    "symbol": text("Of the asset, where it is known."),
    "amount": number("Whole units.", exclusiveMinimum=0),
    "payTo": address("Who is paid: the owner of what receives."),
    "signature": text("Of the transaction, base58, once it is known."),
    "timestamp": timestamp("When it was judged."),
    "error": text("Why it is blocked or failed."),
}
_OFFERED = ("protocol", "mode", "site", "url", "method", "asset", "symbol", "amount", "payTo")
_RESPONSE = response_object(
    {
        "status": whole("Of HTTP.", 200, 599),
        "headers": mapping(
            text("Those of one name together."),
            "By name, in lower case; without cookies and those of the connection.",
        ),
        "body": text("The body, where it is text."),
        "bodyBase64": text("The body, where it is not, or is encoded."),
        "truncated": flag(
            "There was more: the body is cut at 1 MiB, it broke off, or it is no longer kept."
        ),
    },
    optional=("body", "bodyBase64"),
)
_PAYMENT = response_object(PAYMENT, optional=("symbol", "signature", "error"))
_JUDGED = SCHEMAS["DryRun"]
_TRIAL = response_object(
    _JUDGED["properties"]
    | {
        "status": whole("What the seller answered to the request without a payment.", 200, 599),
        "offer": nullable(
            response_object(
                {name: PAYMENT[name] for name in _OFFERED}
                | {"description": text("What is sold, as the seller says.")},
                optional=("symbol", "description"),
                description="What would be paid; null where nothing is asked.",
            )
        ),
    },
    optional=[name for name in _JUDGED["properties"] if name not in _JUDGED["required"]],
    title="PaymentDryRun",
)
_PAID = response_object(
    {
        "response": nullable(_RESPONSE),
        "payment": nullable(_PAYMENT),
    },
    title="Paid",
)
_STORED = response_object({"response": nullable(_RESPONSE), "payment": _PAYMENT})

_PAYMENT_EXAMPLE = {
    "id": "5b0c1a2e-7d64-4f5b-9a0e-1f6d2c3b4a59",
    "walletId": WALLET,
    "status": "confirmed",
    "state": "landed",
    "served": "yes",
    "protocol": "x402",
    "mode": "sponsored",
    "site": "api.example.com",
    "url": "https://api.example.com/weather",
    "method": "GET",
    "asset": USDC,
    "symbol": "USDC",
    "amount": 0.01,
    "payTo": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g",
    "signature": "62BN96o64rTJp8YBiKcPL8tudNLWPui2hiMjsgxkVhpEJumjR8bkkygSxrAHLtFJFwZkihgHHuSWhAZ"
    "agzoCMkHC",
    "timestamp": "2026-11-21T10:34:55.395Z",
}
_PAID_EXAMPLE = {
    "response": {
        "status": 200,
        "headers": {"content-type": "application/json"},
        "body": '{"weather": "sunny"}',
        "truncated": False,
    },
    "payment": _PAYMENT_EXAMPLE,
}
_TRIAL_EXAMPLE = {
    "dryRun": True,
    "allowed": True,
    "guardrailsApplied": ["max_per_tx"],
    "status": 402,
    "offer": {name: _PAYMENT_EXAMPLE[name] for name in _OFFERED} | {"description": "Weather"},
}
_BAD = [
    "url is required and must be a string",
    "max is required: an amount and a symbol or mint, such as 0.05 USDC",
    "api.example.com makes no offer that may be paid: x402: it asks 0.06 USDC, and max is"
    " 0.05 USDC (price_above_max)",
]

PATHS = {
    "/wallets/{walletId}/pay": {
        "post": operation(
            "pay",
            "Make a request over HTTP, and pay for it",
            tag="payments",
            access=Access.KEY,
            may_hold=True,
            description=(
                "The service makes the request; where the seller answers 402 it pays one of its"
                " offers, at most `max`, and makes the request once more, with the payment. It"
                f" waits up to {ANSWER_WAIT_S:.0f} seconds for that answer, follows no redirect,"
                " and pays once, whatever is answered. `response` is null where no answer came,"
                " `payment` where nothing was to be paid."
            ),
            parameters=[WALLET_ID, DRY_RUN, IDEMPOTENCY_KEY],
            body=request_body(
                request_object(
                    {
                        "url": text("Whole address, https."),
                        "method": choice("Of the request; `GET` where it is absent.", *METHODS),
                        "headers": mapping(text("A value."), "Headers by name."),
                        "body": text("Text, of at most 1 MiB."),
                        "max": text(
                            "The most to pay: whole units and a symbol or mint. Required of"
                            " everybody but the admin.",
                            pattern=r"^[0-9]{1,20}(\.[0-9]{1,20})? [A-Za-z0-9]{1,64}$",
                        ),
                        "protocol": text("Pay by this protocol only."),
                        "dryRun": DRY_RUN_FLAG,
                    },
                    required=["url"],
                ),
                {"url": "https://api.example.com/weather", "max": "0.05 USDC"},
            ),
            response={
                "description": "The answer and its payment; with `dryRun`, what would be paid.",
                "headers": REPLAYED,
                "content": {
                    JSON: {"schema": {"oneOf": [_PAID, _TRIAL]}}
                    | examples(paid=_PAID_EXAMPLE, dryRun=_TRIAL_EXAMPLE)
                },
            },
            errors={
                400: [*_BAD, "dryRun must be true or false"],
                404: NO_WALLET,
                409: IN_FLIGHT,
                422: MISMATCH,
                429: TOO_MANY,
                500: [BLOCKED, FAILED],
            },
        )
    },
    "/payments": {
        "get": operation(
            "listPayments",
            "What was paid for",
            tag="payments",
            access=Access.KEY,
            description="A key that is confined to one wallet sees that wallet's.",
            parameters=[
                query("walletId", identifier("Only this wallet's.")),
                LIMIT,
                BEFORE_RECORD,
            ],
            response=success(
                response_object({"payments": array(_PAYMENT, "Newest first.")}),
                {"payments": [_PAYMENT_EXAMPLE]},
            ),
            errors={
                400: [
                    "limit must be a whole number from 1 to 500",
                    "before must be the id of a payment",
                ],
                404: NO_WALLET,
            },
        )
    },
    "/payments/{paymentId}": {
        "get": operation(
            "getPayment",
            "A payment and its answer",
            tag="payments",
            access=Access.KEY,
            parameters=[
                path_parameter("paymentId", identifier("The payment."), _PAYMENT_EXAMPLE["id"])
            ],
            response=success(_STORED, _PAID_EXAMPLE),
            errors={404: NO_PAYMENT},
        )
    },
}
