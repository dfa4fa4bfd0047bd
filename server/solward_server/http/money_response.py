"""The one way a route makes a transaction: confined, counted, once per key, always answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from quart import Response, request

from solward.errors import IdempotencyInFlight, InvalidRequest, TransactionError
from solward.record import TransactionRecord, TransactionStatus
from solward.vault.store.idempotency import StoredResponse
from solward.vault.transactions.outcome import refusal
from solward.vault.transactions.request import Actor, IdempotencyKey
from solward.vault.transactions.trial import TrialEnded
from solward_server.http.auth import caller
from solward_server.http.body import Body
from solward_server.http.edge import Edge
from solward_server.http.errors import error_response
from solward_server.http.idempotency import finish, first_use, idempotency_key, replay, replayed
from solward_server.http.json_provider import json_response

Operation = Callable[[Actor], Awaitable[TransactionRecord]]
Shape = Callable[[TransactionRecord], dict[str, Any]]


async def money_response(
    edge: Edge, wallet_id: str, body: Body, operation: Operation, shape: Shape
) -> Response:
    """Run an operation for the caller and answer with its record, or replay the first answer.

    A blocked or failed transaction is answered here, with 500 and its stored record behind it;
    other errors are the general mapping's.
    """
    await edge.wallet(wallet_id)
    # Read before a dry run too, which leaves it unused: a bad one is found out there.
    key = idempotency_key(body)
    if wants_dry_run():
        return await _dry_run(operation)
    database = edge.service.database
    if key is not None:
        stored = await first_use(database, key)
        if stored is not None:
            return await _again(edge, key, stored, shape)
    await edge.count_request()
    actor = replace(caller().actor(), idempotency=key)
    try:
        response = _answer(await operation(actor), shape)
    except TransactionError as error:
        response = error_response(str(error), 500)
    return response if key is None else await finish(database, key, response)


def wants_dry_run() -> bool:
    """The query's `dryRun`; what could mean a trial is never taken for the real thing.

    Raises:
        InvalidRequest: it is neither `true` nor `false`, or given twice.
    """
    given = request.args.getlist("dryRun")
    if not set(given) <= {"true", "false"} or len(given) > 1:
        raise InvalidRequest("dryRun must be true or false; nothing was sent")
    return "true" in given


async def _dry_run(operation: Operation) -> Response:
    try:
        await operation(replace(caller().actor(), dry_run=True))
    except TrialEnded as ended:
        return json_response(ended.trial.to_json())
    raise AssertionError("unreachable: the engine answers a dry run with its trial")


async def _again(edge: Edge, key: IdempotencyKey, stored: StoredResponse, shape: Shape) -> Response:
    if stored.body is not None:
        return replay(stored)
    # The first answer was never given: the process ended, or its caller went away.
    record = await edge.service.record(stored.transaction_id)
    if record.status is TransactionStatus.PENDING:
        raise IdempotencyInFlight
    return replayed(await finish(edge.service.database, key, _answer(record, shape)))


def _answer(record: TransactionRecord, shape: Shape) -> Response:
    if record.status in (TransactionStatus.BLOCKED, TransactionStatus.FAILED):
        return error_response(str(refusal(record)), 500)
    return json_response(shape(record))
