"""Conversion of exceptions to a status, a sentence and headers, for all routes.

Every error is `{"error": text}`. Statuses are those of the interface's contract or, if
`ERROR_STATUS` is `semantic`, those of what happened; the header `Solward-Contract-Status` then has
the contract's if it differs.
"""

from __future__ import annotations

from urllib.parse import quote

import structlog
from quart import Quart, Response, current_app, request
from werkzeug.exceptions import HTTPException

from solward.credentials.rates import TooManyRequests
from solward.settings import Settings
from solward.settings.settings import ErrorStatus
from solward.support.fair_turns import Crowded
from solward.support.webhook_signature import SIGNATURE
from solward.telemetry import metrics
from solward.telemetry.scrub import scrub_text
from solward.types.errors import (
    CONTRACT_HEADER,
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
    LedgerError,
    LedgerUnavailable,
    MayNotDecide,
    ModelRefused,
    NotEnough,
    NotFound,
    PolicyChanged,
    RateReached,
    ScheduleBusy,
    SkillError,
    SkillNotFound,
    SkillTimeout,
    SolwardError,
    TakenOver,
    TokenBudgetReached,
    TooManyWallets,
    TransactionError,
    TransactionFailed,
)
from solward_server.http.auth import CROWDED, ReadOnlyKey, RoleNeeded, Unauthorized
from solward_server.http.body import MAX_BODY_BYTES, json_response, max_body_bytes
from solward_server.http.middleware import ForeignOrigin, Misdirected

_log = structlog.get_logger(__name__)


class Forbidden(Exception):
    """The API key may not do this, for example because it is confined to a wallet."""


class WrongContentType(Exception):
    """The body has a type that the route does not accept."""


# Kinds of errors, their status in the contract, and the semantic one. The most specific kind first;
# any other error is 500.
_STATUS: tuple[tuple[tuple[type[Exception], ...], int, int], ...] = (
    ((NotEnough,), 400, 422),
    ((SkillTimeout,), 500, 500),
    ((NotFound, SkillNotFound), 404, 404),
    ((InvalidRequest, SkillError), 400, 400),
    ((IdempotencyMismatch,), 422, 422),
    ((Held,), 202, 202),
    ((HoldDecided, IdempotencyInFlight, PolicyChanged, ScheduleBusy), 409, 409),
    ((TakenOver,), 500, 409),
    ((DecisionRefused, KeyRevoked, Unauthorized), 401, 401),
    ((Forbidden, ForeignOrigin, MayNotDecide, ReadOnlyKey, RoleNeeded), 403, 403),
    ((GuardrailBlocked, TooManyWallets), 500, 403),
    ((Crowded, TokenBudgetReached, TooManyRequests), 429, 429),
    ((RateReached,), 500, 429),
    ((LedgerUnavailable,), 500, 503),
    ((LedgerError, TransactionFailed), 500, 502),
    ((WrongContentType,), 415, 415),
    ((Misdirected,), 421, 421),
)
_INTERNAL_CODES = frozenset({"internal_error"})
# `Retry-After` for a request that is under way, and for a crowd of look-ups: both end soon.
_SOON_S = 1


def too_large_text(most: int) -> str:
    """Return the error's text for a body of more than this many bytes."""
    return f"The request body must not be larger than {most // 1024} KiB"


# The setting's name in the application's configuration.
_ERROR_STATUS = "ERROR_STATUS"
INTERNAL_ERROR = "Internal error"
HTTP_TEXTS = {
    400: "Bad request",
    404: "Not found",
    405: "Method not allowed",
    408: "The request body took too long to arrive",
    413: too_large_text(MAX_BODY_BYTES),
    415: "The request body must not be encoded: leave out Content-Encoding. Nothing was done",
}


SPENDS_NOTHING = "This API key may spend nothing, so it can only read"


def status_of(error: Exception, statuses: ErrorStatus = "contract") -> int:
    """Return the contract's or the semantic status of an error."""
    if isinstance(error, HTTPException):
        return error.code or 500
    if isinstance(error, SkillError) and error.code in _INTERNAL_CODES:
        return 500
    is_semantic = statuses == "semantic"
    cause = error.record.cause if is_semantic and isinstance(error, TransactionError) else None
    for kinds, contract, semantic in _STATUS:
        if issubclass(cause or type(error), kinds):
            return semantic if is_semantic else contract
    return 500


def caller_text(error: SolwardError) -> str:
    """Return an error's text, with the words of a model that refused; never log it."""
    said = error.said if isinstance(error, ModelRefused) else ""
    return scrub_text(f"{error}: {said}" if said else str(error))


def refusal_headers(error: Exception) -> dict[str, str]:
    """Return the headers of an error for programs: a transaction's rule and record, and the seconds
    after which the request may be made again."""
    match error:
        case IdempotencyInFlight() | Crowded():
            return {RETRY_HEADER: str(_SOON_S)}
        case TooManyRequests():
            return {RETRY_HEADER: str(error.retry_after)}
        case TransactionError():
            headers = {TRANSACTION_HEADER: error.record.id}
            if isinstance(error, GuardrailBlocked):
                headers[RULE_HEADER] = quote(error.rule, safe=" ")
                if error.retry_after_s is not None:
                    headers[RETRY_HEADER] = str(error.retry_after_s)
            return headers
    return {}


def error_response(error: Exception) -> Response:
    """Return the response to an error; call it while a request is handled."""
    status = status_of(error, current_app.config[_ERROR_STATUS])
    response = json_response({"error": _error_text(error)}, status)
    response.headers.update(refusal_headers(error) | _protocol_headers(error, status))
    if status != status_of(error):
        response.headers[CONTRACT_HEADER] = str(status_of(error))
    return response


def _error_text(error: Exception) -> str:
    """Return an error's text for its caller; a bug's text reveals nothing."""
    if isinstance(error, SolwardError):
        return caller_text(error)
    if isinstance(error, HTTPException):
        if error.code == 413:
            return too_large_text(max_body_bytes(request.path))
        return HTTP_TEXTS.get(error.code or 500, error.name)
    if isinstance(error, Crowded):
        return CROWDED
    is_known = any(isinstance(error, kinds) for kinds, _, _ in _STATUS)
    return str(error) if is_known else INTERNAL_ERROR


def _protocol_headers(error: Exception, status: int) -> dict[str, str]:
    if status == 401:
        is_signed = isinstance(error, DecisionRefused)
        return {"WWW-Authenticate": SIGNATURE if is_signed else "Bearer"}
    if not isinstance(error, HTTPException):
        return {}
    headers = {}
    if status == 413:
        # Unread bytes of the body make the connection useless: a client must not reuse it.
        headers["Connection"] = "close"
    if status == 415:
        headers["Accept-Encoding"] = "identity"
    methods = getattr(error, "valid_methods", None)
    if methods:
        headers["Allow"] = ", ".join(sorted(methods))
    return headers


def handle_errors(app: Quart, settings: Settings) -> None:
    """Register the handler of all exceptions."""
    app.config[_ERROR_STATUS] = settings.error_status

    @app.errorhandler(Exception)
    async def answer(error: Exception) -> Response:
        if isinstance(error, Held):
            # The page on which a person decides.
            page = f"{settings.dashboard_address}/holds/{quote(error.hold.id, safe='')}"
            return json_response(error.hold.answer() | {"approveAt": page}, status_of(error))
        response = error_response(error)
        if isinstance(error, TooManyRequests):
            metrics.RATE_LIMITED.inc()
        elif status_of(error) == 500 and not isinstance(error, TransactionError):
            if isinstance(error, SolwardError):
                _log.warning("request_failed", error=str(error), kind=type(error).__name__)
            elif not isinstance(error, HTTPException):
                _log.error("request_crashed", exc_info=error)
        return response
