"""How every money route runs: wallet check, dry run, idempotency, rate limit, response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from quart import Response

from solward.types.errors import RETRY_HEADER, IdempotencyInFlight, NotFound, TransactionError
from solward.types.record import ACTION, TransactionRecord, TransactionStatus
from solward.vault.money.failures import refusal
from solward.vault.money.judge.trial import TrialEnded
from solward.vault.money.request import Actor, IdempotencyKey
from solward.vault.store.idempotency import StoredResponse
from solward_server.http.auth import caller
from solward_server.http.body import Body, json_response, wants_dry_run
from solward_server.http.errors import error_response, refusal_headers
from solward_server.http.idempotency import (
    finish,
    first_use,
    idempotency_key,
    mark_replayed,
    replay,
)
from solward_server.http.route_context import RouteContext

Operation = Callable[[Actor], Awaitable[TransactionRecord]]
ToJson = Callable[[TransactionRecord], dict[str, Any]]


async def money_response(
    context: RouteContext, wallet_id: str, body: Body, operation: Operation, to_json: ToJson
) -> Response:
    """Run an operation for the caller and respond with its record, or replay the first response.

    A blocked or failed transaction is answered here, and the answer stored; other errors are those
    of `errors.handle_errors`.
    """
    await context.wallet(wallet_id)
    # A dry run does not use the key, but refuses a malformed one.
    key = idempotency_key(body)
    if wants_dry_run(body):
        return await _dry_run(operation)
    database = context.service.database
    if key is not None:
        stored = await first_use(database, key)
        if stored is not None:
            # Raises `Held` while a person is asked.
            return await _respond_again(context, key, stored, to_json)
    await context.count_request()
    actor = caller().actor()
    if key is not None:
        actor = replace(actor, idempotency=key)
    try:
        response = _response(await operation(actor), to_json)
    except TransactionError as error:
        response = error_response(error)
    return response if key is None else await finish(database, key, response)


async def _dry_run(operation: Operation) -> Response:
    try:
        await operation(replace(caller().actor(), dry_run=True))
    except TrialEnded as ended:
        return json_response(ended.trial.to_json())
    raise AssertionError("unreachable: a dry run ends with TrialEnded")


async def _respond_again(
    context: RouteContext, key: IdempotencyKey, stored: StoredResponse, to_json: ToJson
) -> Response:
    if stored.body is not None:
        return await replayed(context, stored)
    # No response was stored: the process ended, the caller went away, or a person was asked.
    record = await _record_of(context, stored.transaction_id)
    if record.status is TransactionStatus.PENDING:
        raise IdempotencyInFlight
    return mark_replayed(await finish(context.service.database, key, _response(record, to_json)))


async def _record_of(context: RouteContext, name: str) -> TransactionRecord:
    """The record that an Idempotency-Key stands for: a transaction's id, or `Hold.action`.

    Raises:
        Held: it is a hold that is open.
        NotFound: there is none.
    """
    if not name.startswith(ACTION):
        return await context.service.history.record(name)
    record = await context.service.engine.end_of_hold(name.removeprefix(ACTION))
    if record is None:
        raise NotFound("Transaction not found")
    return record


async def replayed(context: RouteContext, stored: StoredResponse) -> Response:
    """The first response of a key again; a refusal names its transaction and rule again, and no
    time to wait: the key has this answer for good."""
    response = replay(stored)
    if response.status_code != 200:
        record = await _record_of(context, stored.transaction_id)
        response.headers.update(refusal_headers(refusal(record)))
        response.headers.pop(RETRY_HEADER, None)
    return response


def _response(record: TransactionRecord, to_json: ToJson) -> Response:
    if record.status in (TransactionStatus.BLOCKED, TransactionStatus.FAILED):
        return error_response(refusal(record))
    return json_response(to_json(record))
