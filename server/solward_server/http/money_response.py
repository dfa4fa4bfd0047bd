"""How every money route runs: wallet check, dry run, idempotency, rate limit, response."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from quart import Quart, Response, request

from solward.support import jsontext
from solward.types.errors import RETRY_HEADER, IdempotencyInFlight, InvalidRequest, TransactionError
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.failures import refusal
from solward.vault.money.judge.trial import TrialEnded
from solward.vault.money.request import Actor, IdempotencyKey
from solward.vault.store.idempotency import StoredResponse
from solward_server.http.auth import caller
from solward_server.http.body import (
    DRY_RUN,
    NO_DRY_RUN,
    Body,
    json_response,
    means_dry_run,
    refuse_unknown_parameters,
    route_fields,
)
from solward_server.http.errors import refusal_headers, refused_response
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

_READING: Final = ("GET", "HEAD", "OPTIONS")
_NO_FLAG: Final = "dryRun must be true or false; nothing was sent"


async def money_response(
    context: RouteContext, wallet_id: str, body: Body, operation: Operation, to_json: ToJson
) -> Response:
    """Run an operation for the caller and respond with its record, or replay the first response.

    A blocked or failed transaction is a 500 here, its record stored; other errors are those of
    `errors.handle_errors`.
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
        response = refused_response(error)
    return response if key is None else await finish(database, key, response)


def wants_dry_run(body: Body) -> bool:
    """`dryRun` of the query or of the body, where its null is an absent field; a malformed one
    never sends a transaction.

    Raises:
        InvalidRequest: one of them is neither true nor false, or the query has it twice.
    """
    _refuse_other_spellings(body)
    in_body = body.get("dryRun")
    if in_body is not None and not isinstance(in_body, bool):
        raise InvalidRequest(_NO_FLAG)
    return query_wants_dry_run() or in_body is True


def check_changes(app: Quart, prefix: str) -> None:
    """Before each route below `prefix` that changes something: refuse a dry run of what has none,
    in the query or in a body that nothing else reads, and parameters of the query that it does not
    know."""

    @app.before_request
    async def check() -> None:
        rule = request.url_rule
        if rule is None or request.method in _READING or not rule.rule.startswith(prefix):
            return
        fields = route_fields()
        if request.args:
            if query_wants_dry_run() and DRY_RUN not in fields.query:
                raise InvalidRequest(NO_DRY_RUN)
            refuse_unknown_parameters()
        if not fields.reads_body:
            _refuse_unread_dry_run(await request.get_data(as_text=False))


def _refuse_unread_dry_run(data: str | bytes) -> None:
    body = None
    with contextlib.suppress(ValueError, RecursionError):
        body = jsontext.loads(data)
    if isinstance(body, dict) and any(map(means_dry_run, body)):
        raise InvalidRequest(NO_DRY_RUN)


def refuse_dry_run(body: Body) -> None:
    """For what moves money and has no dry run; raises `InvalidRequest` where one is asked for."""
    if wants_dry_run(body):
        raise InvalidRequest(NO_DRY_RUN)


def query_wants_dry_run() -> bool:
    """The query's `dryRun`; raises `InvalidRequest` as `wants_dry_run`."""
    _refuse_other_spellings(request.args)
    values = request.args.getlist("dryRun")
    if not set(values) <= {"true", "false"} or len(values) > 1:
        raise InvalidRequest(_NO_FLAG)
    return "true" in values


def _refuse_other_spellings(names: Iterable[str]) -> None:
    """Whoever writes it otherwise means a dry run, and would be paid."""
    for name in names:
        if name != DRY_RUN and means_dry_run(name):
            raise InvalidRequest(f"{name!r} is written {DRY_RUN}; nothing was sent")


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
    record = await context.service.record_of(stored.transaction_id)
    if record.status is TransactionStatus.PENDING:
        raise IdempotencyInFlight
    return mark_replayed(await finish(context.service.database, key, _response(record, to_json)))


async def replayed(context: RouteContext, stored: StoredResponse) -> Response:
    """The first response of a key again; a refusal names its transaction and rule again, and no
    time to wait: the key has this answer for good."""
    response = replay(stored)
    if response.status_code == 500:
        record = await context.service.record_of(stored.transaction_id)
        response.headers.update(refusal_headers(refusal(record)))
        response.headers.pop(RETRY_HEADER, None)
    return response


def _response(record: TransactionRecord, to_json: ToJson) -> Response:
    if record.status in (TransactionStatus.BLOCKED, TransactionStatus.FAILED):
        return refused_response(refusal(record))
    return json_response(to_json(record))
