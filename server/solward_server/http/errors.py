"""Every error as `{"error": text}` with its status: one mapping for all routes."""

from __future__ import annotations

from urllib.parse import quote

import structlog
from quart import Quart, Response, request
from werkzeug.exceptions import HTTPException

from solward.credentials.rates import TooManyRequests
from solward.support.fair_turns import Crowded
from solward.support.webhook_signature import SIGNATURE
from solward.telemetry import metrics
from solward.telemetry.scrub import scrub_text
from solward.types.errors import (
    RETRY_HEADER,
    RULE_HEADER,
    TRANSACTION_HEADER,
    DecisionRefused,
    GuardrailBlocked,
    Held,
    HoldDecided,
    IdempotencyInFlight,
    IdempotencyMismatch,
    InvalidRequest,
    KeyRevoked,
    MayNotDecide,
    ModelRefused,
    NotFound,
    PolicyChanged,
    ScheduleBusy,
    SkillError,
    SkillNotFound,
    SkillTimeout,
    SolwardError,
    TokenBudgetReached,
    TransactionError,
)
from solward_server.http.auth import ReadOnlyKey, RoleNeeded, Unauthorized
from solward_server.http.body import MAX_BODY_BYTES, json_response, max_body_bytes
from solward_server.http.credential_lookups import CROWDED
from solward_server.http.middleware import ForeignOrigin, Misdirected

_log = structlog.get_logger(__name__)

# The most specific first; any other error is 500.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (InvalidRequest, 400),
    (SkillTimeout, 500),
    (SkillNotFound, 404),
    (SkillError, 400),
    (NotFound, 404),
    (IdempotencyMismatch, 422),
    (IdempotencyInFlight, 409),
    (Held, 202),
    (HoldDecided, 409),
    (PolicyChanged, 409),
    (ScheduleBusy, 409),
    (MayNotDecide, 403),
    (TokenBudgetReached, 429),
    (KeyRevoked, 401),
    (DecisionRefused, 401),
)
_INTERNAL_CODES = frozenset({"internal_error"})
_IN_FLIGHT_RETRY_S = 1


def too_large(most: int) -> str:
    """The text where a body has more than this many bytes."""
    return f"The request body must not be larger than {most // 1024} KiB"


INTERNAL_ERROR = "Internal error"
HTTP_TEXTS = {
    400: "Bad request",
    404: "Not found",
    405: "Method not allowed",
    408: "The request body took too long to arrive",
    413: too_large(MAX_BODY_BYTES),
    415: "The request body must not be encoded: leave out Content-Encoding. Nothing was done",
}


SPENDS_NOTHING = "This API key may spend nothing, so it reads and changes nothing"


class Forbidden(Exception):
    """A key confined to one wallet may not do this."""


def status_of(error: Exception) -> int:
    """The status of a deliberate error."""
    if isinstance(error, SkillError) and error.code in _INTERNAL_CODES:
        return 500
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def shown_text(error: SolwardError) -> str:
    """A deliberate error's text for its caller; with it, what a model said that refused, which is
    not to be logged."""
    said = error.said if isinstance(error, ModelRefused) else ""
    return scrub_text(f"{error}: {said}" if said else str(error))


def error_response(text: str, status: int) -> Response:
    """The form every error has."""
    return json_response({"error": text}, status)


def refusal_headers(error: SolwardError) -> dict[str, str]:
    """What the answer to a deliberate error says in headers: of a transaction the rule that refused
    it and its record, and the seconds after which the request may be made again."""
    if isinstance(error, IdempotencyInFlight):
        return {RETRY_HEADER: str(_IN_FLIGHT_RETRY_S)}
    if not isinstance(error, TransactionError):
        return {}
    headers = {TRANSACTION_HEADER: error.record.id}
    if isinstance(error, GuardrailBlocked):
        headers[RULE_HEADER] = quote(error.rule, safe=" ")
        if error.retry_after_s is not None:
            headers[RETRY_HEADER] = str(error.retry_after_s)
    return headers


def refused_response(error: SolwardError) -> Response:
    """The answer to a deliberate error that a route stores for replays."""
    response = error_response(str(error), status_of(error))
    response.headers.update(refusal_headers(error))
    return response


def handle_errors(app: Quart, dashboard: str) -> None:
    """Register the mapping; no exception escapes it.

    Args:
        dashboard: the pages' address, where a person decides what is held.
    """

    @app.errorhandler(SolwardError)
    async def deliberate(error: SolwardError) -> Response:
        status = status_of(error)
        if status == 500 and not isinstance(error, TransactionError):
            _log.warning("request_failed", error=str(error), kind=type(error).__name__)
        response = error_response(shown_text(error), status)
        response.headers.update(refusal_headers(error))
        return response

    @app.errorhandler(Held)
    async def held(error: Held) -> Response:
        approve_at = f"{dashboard}/holds/{quote(error.hold.id, safe='')}"
        return json_response(error.hold.answer() | {"approveAt": approve_at}, status_of(error))

    @app.errorhandler(Unauthorized)
    @app.errorhandler(KeyRevoked)
    async def unauthorized(error: Unauthorized | KeyRevoked) -> Response:
        response = error_response(str(error), 401)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    @app.errorhandler(DecisionRefused)
    async def not_signed(error: DecisionRefused) -> Response:
        response = error_response(str(error), 401)
        response.headers["WWW-Authenticate"] = SIGNATURE
        return response

    @app.errorhandler(ReadOnlyKey)
    @app.errorhandler(RoleNeeded)
    @app.errorhandler(Forbidden)
    async def forbidden(error: Forbidden | ReadOnlyKey | RoleNeeded) -> Response:
        return error_response(str(error), 403)

    @app.errorhandler(Misdirected)
    async def misdirected(error: Misdirected) -> Response:
        return error_response(str(error), 421)

    @app.errorhandler(ForeignOrigin)
    async def foreign_origin(error: ForeignOrigin) -> Response:
        return error_response(str(error), 403)

    @app.errorhandler(TooManyRequests)
    async def too_many(error: TooManyRequests) -> Response:
        metrics.RATE_LIMITED.inc()
        response = error_response(str(error), 429)
        response.headers[RETRY_HEADER] = str(error.retry_after)
        return response

    @app.errorhandler(Crowded)
    async def crowded(_error: Crowded) -> Response:
        response = error_response(CROWDED, 429)
        response.headers[RETRY_HEADER] = "1"
        return response

    @app.errorhandler(HTTPException)
    async def http(error: HTTPException) -> Response:
        status = error.code or 500
        text = HTTP_TEXTS.get(status, error.name)
        if status == 413:
            text = too_large(max_body_bytes(request.path))
        response = error_response(text, status)
        if status == 413:
            # Unread bytes of the body make the connection useless: a client must not reuse it.
            response.headers["Connection"] = "close"
        if status == 415:
            response.headers["Accept-Encoding"] = "identity"
        methods = getattr(error, "valid_methods", None)
        if methods:
            response.headers["Allow"] = ", ".join(sorted(methods))
        return response

    @app.errorhandler(Exception)
    async def bug(error: Exception) -> Response:
        _log.error("request_crashed", exc_info=error)
        return error_response(INTERNAL_ERROR, 500)
