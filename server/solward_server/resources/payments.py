"""Routes of HTTP requests that a wallet pays for: make them, list them, read their answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quart import Response

from solward.operations.payments.pay import paid_json
from solward.resources import payments as calls
from solward.resources.declare import answer_example, answer_reference
from solward.types.errors import NotFound, TransactionError
from solward.types.payment import PayRequest
from solward.types.record import ACTION
from solward.types.roles import Role
from solward.vault.money.request import IdempotencyKey
from solward.vault.store.idempotency import StoredResponse
from solward_server.http.auth import caller, keyed
from solward_server.http.body import json_response, query_of, read_body, wants_dry_run
from solward_server.http.errors import error_response
from solward_server.http.idempotency import (
    finish,
    first_answer,
    idempotency_key,
    mark_replayed,
)
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import DRY_RUN, IDEMPOTENCY_KEY, NOT_FOUND, WALLET_ID
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.money import money_errors, money_response
from solward_server.openapi.route import Routes
from solward_server.resources.operations import replay_first

routes = Routes("payments", "Requests over HTTP that a wallet pays for.")


@routes.serve(
    calls.PAY,
    keyed(Role.POLICY),
    money_errors(
        "max is required: an amount and a symbol or mint, such as 0.05 USDC",
        "api.example.com makes no offer that may be paid: x402: it asks 0.06 USDC, and max is"
        " 0.05 USDC (price_above_max)",
    ),
    response=money_response(
        "The site's answer and the payment; with `dryRun`, what would be paid.",
        paid=(answer_reference(calls.PaidAnswer), answer_example(calls.PaidAnswer)),
        dryRun=(answer_reference(calls.PaymentQuote), answer_example(calls.PaymentQuote)),
    ),
    parameters=[WALLET_ID, DRY_RUN, IDEMPOTENCY_KEY],
    may_hold=True,
)
async def pay(context: RouteContext, wallet_id: str) -> Response:
    service = context.service
    body = await read_body()
    await context.wallet(wallet_id)
    # Checked first, so that a request that may mean a trial never pays.
    is_trial = wants_dry_run(body)
    # Only a checked body is small enough to be hashed for its key.
    asked = calls.PaidRequest.of(body).pay_request
    # A dry run does not use the key, but refuses a malformed one.
    key = idempotency_key(body)
    if is_trial:
        # It counts, because a trial asks the seller too.
        await context.count_request()
        quote = await service.payments.quote(wallet_id, caller().actor(), asked)
        return json_response(quote.to_json())
    if key is not None:
        stored = await first_answer(service.database, key)
        known = None if stored is None else await _earlier_answer(context, key, stored, asked)
        if known is not None:
            return known
    await context.count_request()
    actor = replace(caller().actor(), idempotency=key)
    try:
        answer = await service.payments.pay(wallet_id, actor, asked)
    except TransactionError as error:
        return await _refusal(context, key, error)
    return json_response(paid_json(answer))


@routes.serve(
    calls.LIST_PAYMENTS,
    keyed(Role.READ),
    {400: "before must be the id of a payment", 404: NO_WALLET},
)
async def list_payments(context: RouteContext) -> dict[str, Any]:
    only = query_of(calls.ListedPayments)
    if only.wallet_id is not None:
        await context.wallet(only.wallet_id)
    found = await context.service.payments.list_payments(
        caller().wallet_id or only.wallet_id, limit=only.limit, before=only.before
    )
    return {"payments": [each.to_json() for each in found]}


@routes.serve(calls.GET_PAYMENT, keyed(Role.READ))
async def get_payment(context: RouteContext, payment_id: str) -> dict[str, Any]:
    found = await context.service.payments.answer(payment_id)
    of = None if found.payment is None else found.payment.wallet_id
    if caller().wallet_id not in (None, of):
        raise NotFound(NOT_FOUND["payment_id"])
    return paid_json(found)


async def _earlier_answer(
    context: RouteContext, key: IdempotencyKey, stored: StoredResponse, asked: PayRequest
) -> Response | None:
    """Return the answer for a used key; None if a person approved the payment since.

    A seller's answer is stored with its payment, not with the key.
    """
    if stored.body is not None:
        return await replay_first(context, stored)
    payment = stored.transaction_id
    if payment.startswith(ACTION):
        # Raises `Held` while a person is asked.
        record = await context.service.engine.record_of_hold(payment.removeprefix(ACTION))
        if record is None:
            return None
        payment = record.id
    try:
        answer = await context.service.payments.repeat(payment, asked)
    except TransactionError as error:
        return mark_replayed(await _refusal(context, key, error))
    return mark_replayed(json_response(paid_json(answer)))


async def _refusal(
    context: RouteContext, key: IdempotencyKey | None, error: TransactionError
) -> Response:
    response = error_response(error)
    return response if key is None else await finish(context.service.database, key, response)
