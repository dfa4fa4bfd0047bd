"""Routes that move money: one for each declared operation, with wallet check, dry run, idempotency,
rate limit and response; and the route of quotes for swaps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from quart import Blueprint, Response

from solward.operations.declared import OPERATIONS, SWAP, Operation
from solward.resources.service import QUOTE_SWAP
from solward.types.errors import RETRY_HEADER, IdempotencyInFlight, NotFound, TransactionError
from solward.types.record import ACTION, TransactionRecord, TransactionStatus
from solward.types.roles import Role
from solward.vault.money.outcomes import TrialEnded, refusal
from solward.vault.money.request import Actor, IdempotencyKey
from solward.vault.store.idempotency import StoredResponse
from solward_server.http.auth import caller, keyed
from solward_server.http.body import json_response, read_body, wants_dry_run
from solward_server.http.errors import error_response, refusal_headers
from solward_server.http.idempotency import (
    finish,
    first_answer,
    idempotency_key,
    mark_replayed,
    replay,
)
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import refusals_of
from solward_server.openapi.money import money_operation, operation_body
from solward_server.openapi.route import Routes

quotes = Routes("money", "Transfers, swaps, the faucet.")


@quotes.serve(
    QUOTE_SWAP, keyed(Role.READ), {400: refusals_of(SWAP.fields)}, body=operation_body(SWAP)
)
async def quote(context: RouteContext) -> dict[str, Any]:
    found = await context.service.operations.quote(await read_body())
    return {
        "inputToken": found.input_mint,
        "outputToken": found.output_mint,
        "inputUnits": str(found.in_amount),
        "outputUnits": str(found.out_amount),
        "minimumUnits": str(found.minimum_out),
        "slippageBps": found.slippage_bps,
        "priceImpact": found.price_impact,
    }


def blueprint(context: RouteContext) -> Blueprint:
    """Return the routes `POST /wallets/<wallet_id>/<path>` of all operations."""
    routes = Blueprint("operations", __name__, url_prefix="/wallets/<wallet_id>")
    for declared in OPERATIONS.values():
        view = keyed(Role.POLICY)(partial(_perform, context, declared))
        routes.add_url_rule(f"/{declared.path}", declared.name, view, methods=["POST"])
    return routes


PATHS = {
    f"/wallets/{{walletId}}/{declared.path}": {"post": money_operation(declared)}
    for declared in OPERATIONS.values()
}


async def _perform(context: RouteContext, declared: Operation, wallet_id: str) -> Response:
    """Run an operation for the caller and respond with its record, or replay the first response.

    A blocked or failed transaction is answered here, and the answer stored; other errors are those
    of `errors.handle_errors`.
    """
    body = await read_body()
    # In JSON requests null is an absent field.
    params = {name: value for name, value in body.items() if value is not None}

    async def run(actor: Actor) -> TransactionRecord:
        # Read here, so that a repeated request is answered even if a name means another one by now.
        paying = await context.with_addresses(declared.name, params)
        return await context.service.operations.perform(declared.name, wallet_id, actor, paying)

    await context.wallet(wallet_id)
    # A dry run does not use the key, but refuses a malformed one.
    key = idempotency_key(body)
    if wants_dry_run(body):
        try:
            await run(replace(caller().actor(), dry_run=True))
        except TrialEnded as ended:
            return json_response(ended.trial.to_json())
        raise AssertionError("unreachable: a dry run ends with TrialEnded")
    database = context.service.database
    if key is not None:
        stored = await first_answer(database, key)
        if stored is not None:
            # Raises `Held` while a person is asked.
            return await _respond_again(context, declared, key, stored)
    await context.count_request()
    actor = caller().actor()
    if key is not None:
        actor = replace(actor, idempotency=key)
    try:
        response = _response(declared, await run(actor))
    except TransactionError as error:
        response = error_response(error)
    return response if key is None else await finish(database, key, response)


async def _respond_again(
    context: RouteContext, declared: Operation, key: IdempotencyKey, stored: StoredResponse
) -> Response:
    if stored.body is not None:
        return await replay_first(context, stored)
    # No response was stored: the process ended, the caller went away, or a person was asked.
    record = await _find_record(context, stored.transaction_id)
    if record.status is TransactionStatus.PENDING:
        raise IdempotencyInFlight
    return mark_replayed(await finish(context.service.database, key, _response(declared, record)))


async def _find_record(context: RouteContext, name: str) -> TransactionRecord:
    """Return the record of a request by its stored name, a transaction's id or `Hold.action`.

    Raises:
        Held: the hold is still open.
        NotFound: there is no such record.
    """
    if not name.startswith(ACTION):
        return await context.service.history.record(name)
    record = await context.service.engine.record_of_hold(name.removeprefix(ACTION))
    if record is None:
        raise NotFound("Transaction not found")
    return record


async def replay_first(context: RouteContext, stored: StoredResponse) -> Response:
    """Return the first response of a key again. A refusal names its transaction and rule, but no
    time for a retry, because the key's answer never changes."""
    response = replay(stored)
    if response.status_code != 200:
        record = await _find_record(context, stored.transaction_id)
        response.headers.update(refusal_headers(refusal(record)))
        response.headers.pop(RETRY_HEADER, None)
    return response


def _response(declared: Operation, record: TransactionRecord) -> Response:
    if record.status in (TransactionStatus.BLOCKED, TransactionStatus.FAILED):
        return error_response(refusal(record))
    body = record.to_json(fee=True)
    if declared.is_flat:
        body = {**record.details, **body}
    if declared.metadata:
        body["metadata"] = {name: record.details[name] for name in declared.metadata}
    if declared.flag:
        body[declared.flag] = record.status is TransactionStatus.CONFIRMED
    return json_response(body)
