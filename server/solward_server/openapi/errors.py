"""Error responses of the document, and the errors and texts that many routes share.

An error that is declared as an exception has the status that `http.errors` gives it: the
contract's, or the semantic one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from solward.credentials.rates import ALL, TooManyRequests
from solward.resources.fields import Field, Text
from solward.resources.schema import JSON, examples, media, ref
from solward.settings.settings import ErrorStatus
from solward.support.webhook_signature import SIGNATURE
from solward.types.errors import (
    CONTRACT_HEADER,
    RETRY_HEADER,
    RULE_HEADER,
    TRANSACTION_HEADER,
    AgentNotFound,
    GuardrailBlocked,
    IdempotencyInFlight,
    IdempotencyMismatch,
    InvalidRequest,
    LedgerRejected,
    LedgerUnavailable,
    NotEnough,
    RateReached,
    TakenOver,
    TransactionError,
    TransactionFailed,
    WalletNotFound,
)
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.roles import Role
from solward_server.http.auth import (
    ADMIN_REQUIRED,
    CROWDED,
    KEY_INVALID,
    KEY_REQUIRED,
    RoleNeeded,
)
from solward_server.http.body import NUL_IN_PATH
from solward_server.http.errors import HTTP_TEXTS, INTERNAL_ERROR, status_of

NO_WALLET = str(WalletNotFound())
NO_AGENT = str(AgentNotFound())
IN_FLIGHT = str(IdempotencyInFlight())
MISMATCH = str(IdempotencyMismatch())
TOO_MANY = str(TooManyRequests(limit=2, retry_after=60))
TOO_MANY_AT_ALL = str(TooManyRequests(600, 7, ALL))
ROLE_NEEDED = str(RoleNeeded(Role.POLICY, "ana", Role.READ))

Error = str | Exception
Errors = Mapping[int, Error | Sequence[Error]]

RECORD = TransactionRecord(
    "", "", "transfer", TransactionStatus.FAILED, {}, (), created_ms=0, principal="admin"
)
BLOCKED = GuardrailBlocked(
    "max_per_tx",
    "5 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)",
    RECORD,
)
FAILED = TransactionFailed(
    "The transaction would fail: insufficient balance (999995000 lamports, 1500000000 needed)",
    replace(RECORD, cause=NotEnough),
)
# Other refusals of a transaction, each with a semantic status of its own.
_LIMITED = GuardrailBlocked(
    "rate_limit", "5 transactions in the last minute leave none", replace(RECORD, cause=RateReached)
)
_TAKEN_OVER = TakenOver()
_REJECTED = LedgerRejected(-32602, "Invalid param: WrongSize")
_UNAVAILABLE = LedgerUnavailable("The ledger did not answer getLatestBlockhash (ConnectError)")

_MEANINGS = {
    400: "A field is missing or wrong; the text names it.",
    401: "The credential is missing, unknown or not sufficient.",
    403: "This key, or a credential with this role, may not do this.",
    404: "The id or name is unknown, or not for this key.",
    408: "The request body took too long to arrive.",
    409: "The first request with this Idempotency-Key still runs, or a record has changed.",
    413: "The request body is larger than 64 KiB (policy 1 MiB, payment 2 MiB).",
    415: "The request body is compressed, or encoded otherwise.",
    422: "The Idempotency-Key was used with another body.",
    429: "Too many requests, or a used-up token budget.",
    502: "The ledger refuses the request.",
    503: "The ledger does not answer.",
    500: "The text says what failed; `Internal error` is a bug, with its traceback in the log.",
}
# Added to the meanings of statuses that also refuse transactions.
_OF_REFUSALS = {
    403: " Or a guardrail or a grant blocks the transaction.",
    422: " Or the wallet holds too little.",
}
_RETRY_AFTER = {
    "description": "Seconds to wait before the next request.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
_OF_A_TRANSACTION = {
    TRANSACTION_HEADER: {
        "description": "The record of the transaction that was blocked or failed.",
        "schema": {"type": "string", "format": "uuid"},
    },
    RULE_HEADER: {
        "description": "The guardrail that blocked the transaction, URL-encoded.",
        "schema": {"type": "string"},
    },
    RETRY_HEADER: {
        "description": "Seconds after which `rate_limit` allows another transaction.",
        "schema": {"type": "integer", "minimum": 1},
    },
}
_CONTRACT_STATUS = {
    "description": "The status of this error if `ERROR_STATUS` is `contract`.",
    "schema": {"type": "integer", "minimum": 400},
}
_WWW_AUTHENTICATE = {
    "description": "The authentication scheme.",
    "required": True,
    "schema": {"type": "string", "enum": ["Bearer", SIGNATURE]},
}
# `components/responses`: name -> status and errors, where these have that status.
_SHARED: dict[str, tuple[int, tuple[Error, ...]]] = {
    "BadPath": (400, (NUL_IN_PATH,)),
    "KeyRequired": (401, (KEY_REQUIRED, KEY_INVALID)),
    "AdminRequired": (401, (ADMIN_REQUIRED,)),
    "RoleNeeded": (403, (ROLE_NEEDED,)),
    "NoWallet": (404, (NO_WALLET,)),
    "NoAgent": (404, (NO_AGENT,)),
    "TooSlow": (408, (HTTP_TEXTS[408],)),
    "InFlight": (409, (IN_FLIGHT,)),
    "TooLarge": (413, (HTTP_TEXTS[413],)),
    "Encoded": (415, (HTTP_TEXTS[415],)),
    "OtherBody": (422, (MISMATCH,)),
    "Crowded": (429, (CROWDED,)),
    "TooMany": (429, (TOO_MANY_AT_ALL, CROWDED)),
    "TooManyOfAKey": (429, (TOO_MANY, TOO_MANY_AT_ALL, CROWDED)),
    "Bug": (500, (INTERNAL_ERROR,)),
    "Refused": (500, (BLOCKED, FAILED, INTERNAL_ERROR)),
    "Blocked": (403, (BLOCKED, ROLE_NEEDED)),
    "UnderWay": (409, (IN_FLIGHT, _TAKEN_OVER)),
    "TooLittle": (422, (MISMATCH, FAILED)),
    "Limited": (429, (TOO_MANY, TOO_MANY_AT_ALL, CROWDED, _LIMITED)),
    "LedgerRejects": (502, (_REJECTED,)),
    "LedgerAway": (503, (_UNAVAILABLE,)),
}


def _by_status(sources: Iterable[Errors], statuses: ErrorStatus) -> dict[int, list[Error]]:
    """Return the errors of all sources, each once, by the status of their answers."""
    found: dict[int, list[Error]] = {}
    for source in sources:
        for status, errors in source.items():
            for each in [errors] if isinstance(errors, Error) else errors:
                at = status if isinstance(each, str) else status_of(each, statuses)
                known = found.setdefault(at, [])
                if each not in known:
                    known.append(each)
    return found


def refusals_of(fields: Iterable[Field], *, in_query: bool = False) -> list[Error]:
    """Return the error texts of these fields for a missing and for a wrong value. Fields that are
    checked elsewhere have no text.

    Args:
        in_query: whether they are fields of a query, whose values are texts.
    """
    found: dict[Error, None] = {}
    for each in fields:
        if each.is_required:
            found |= _field_refusal(each, None)
        # For a text: one of the wrong form, or no text. For others: a value below all bounds.
        wrong = ("?\n", "" if in_query else -1) if isinstance(each, Text) else (-1, "?")
        found |= _field_refusal(each, wrong[0]) or _field_refusal(each, wrong[1])
    return [*found]


def _field_refusal(field: Field, value: object) -> dict[Error, None]:
    try:
        field.read(value)
    except InvalidRequest as error:
        return {str(error): None}
    return {}


def error_responses(sources: Sequence[Errors], statuses: ErrorStatus) -> dict[str, dict[str, Any]]:
    """Return the responses of a route with these errors. With semantic statuses, add the errors for
    which the contract has status 500 on any route."""
    found = _by_status(sources, statuses)
    if statuses == "semantic":
        refused = [_LIMITED, _TAKEN_OVER] if BLOCKED in found.get(403, ()) else []
        found = _by_status([*sources, {500: [*refused, _REJECTED, _UNAVAILABLE]}], statuses)
    shared = {of: {"$ref": f"#/components/responses/{name}"} for name, of in _SHARED.items()}
    return {
        str(status): shared.get((status, tuple(errors))) or _error_response(status, errors)
        for status, errors in sorted(found.items())
    }


def shared_responses(statuses: ErrorStatus = "contract") -> dict[str, dict[str, Any]]:
    """Return `components/responses`."""
    return {
        name: _error_response(status, errors)
        for name, (status, errors) in _SHARED.items()
        if _by_status([{status: errors}], statuses).keys() == {status}
    }


def _error_response(status: int, errors: Sequence[Error]) -> dict[str, Any]:
    texts = list(dict.fromkeys(map(str, errors)))
    named = {f"text{place}": {"error": text} for place, text in enumerate(texts, 1)}
    raised = [each for each in errors if isinstance(each, Exception)]
    is_moved = any(status_of(each) != status for each in raised)
    is_refusal = any(isinstance(each, TransactionError) for each in raised)
    headers: dict[str, Any] = {}
    if status == 401:
        headers["WWW-Authenticate"] = _WWW_AUTHENTICATE
    if BLOCKED in errors or (is_refusal and is_moved):
        headers |= _OF_A_TRANSACTION
    if status == 429 or IN_FLIGHT in texts:
        # A token budget has no known moment at which it has room again.
        always = {IN_FLIGHT, TOO_MANY, TOO_MANY_AT_ALL, CROWDED} >= set(texts)
        headers[RETRY_HEADER] = _RETRY_AFTER | {"required": always}
    if is_moved:
        headers[CONTRACT_HEADER] = _CONTRACT_STATUS
    response: dict[str, Any] = {
        "description": _MEANINGS[status] + (_OF_REFUSALS.get(status, "") if is_refusal else ""),
        "content": {JSON: media(ref("Error"), examples(**named))},
    }
    return response | ({"headers": headers} if headers else {})
