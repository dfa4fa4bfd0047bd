"""Every error of the client.

    SolwardError
    ├── InvalidRequest        an argument is wrong, found before anything was sent
    └── ClientError
        ├── Unreachable       no connection, or it broke before the answer came
        ├── BadAnswer         what answered is not a Solward service
        ├── AmbiguousName     several wallets or agents have this name
        ├── Held              a person is asked before the transaction is made: nothing was sent
        ├── BadSignature      a webhook's delivery is not from the service, or is old
        └── ApiError          the service refused: `status` and its error text
            ├── BadRequest        400, 405, 413, 415, 422
            ├── Unauthorized      401
            ├── Forbidden         403
            ├── NotFoundError     404
            ├── Conflict          409  the first request with this key is still running, or the
            │                          policy, or the hold, is another by now
            ├── RateLimited       429  `retry_after_s`
            ├── Refused           500 of a money call: blocked by a guardrail, or failed; `rule`,
            │                          `transaction_id`, `retry_after_s`
            └── ServerError       any other 5xx

These statuses are the contract's. A service with `ERROR_STATUS=semantic` may answer with others;
its header `Solward-Contract-Status` then has the contract's, so that the class is the same.

None of them holds the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from solward.types.errors import (
    CONTRACT_HEADER,
    RETRY_HEADER,
    RULE_HEADER,
    TRANSACTION_HEADER,
    SolwardError,
)


class ClientError(SolwardError):
    """The base of the errors that a call can raise.

    Attributes:
        idempotency_key: of a money call whose result is not known, else None. The same call with
            this key returns it, and pays at most once. An answer without the service's
            `Solward-Api` header, as a gateway sends one, tells no result.
    """

    idempotency_key: str | None = None


class Unreachable(ClientError):
    """There was no answer."""


class BadAnswer(ClientError):
    """The answer is not a Solward service's of this version, such as a gateway's page."""


class AmbiguousName(ClientError):
    """Several wallets or agents have the name; the message lists their ids."""


class Held(ClientError):
    """A person is asked before the transaction is made; nothing was sent, and `str()` says why.

    The same call with this `idempotency_key` tells what became of it, and pays at most once; once
    the hold's `repeats` says so, it is that call that makes it.

    Attributes:
        hold_id: see `SolwardClient.holds`.
        state: `held`, or `approved` and not carried out yet.
        expires_at: until when it may be approved.
        approve_at: the dashboard's page on which a person decides.
        raw: the answer's JSON.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        super().__init__(raw)
        self.hold_id = str(raw["holdId"])
        self.state = str(raw["status"])
        self.sentence = str(raw["sentence"])
        self.expires_at = datetime.fromisoformat(raw["expiresAt"])
        self.approve_at = str(raw["approveAt"])
        self.raw = raw

    def __str__(self) -> str:
        return self.sentence


class BadSignature(ClientError):
    """A delivery of the approvals' webhook is not to be believed: not signed, or not just now."""


class ApiError(ClientError):
    """The service answered with an error; `str()` is its text.

    Attributes:
        status: of the answer.
        rule: of a transaction that a guardrail blocked, the guardrail; else None.
        transaction_id: of a transaction that was blocked or failed, its record; else None.
        retry_after_s: seconds after which the call may succeed, if the service says so.
    """

    rule: str | None = None
    transaction_id: str | None = None
    retry_after_s: float | None = None

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return self.message


class BadRequest(ApiError):
    """A field is missing or wrong; the message names it."""


class Unauthorized(ApiError):
    """No token, an unknown one, or one that is not the admin's."""


class Forbidden(ApiError):
    """The token has no permission for the call."""


class NotFoundError(ApiError):
    """The wallet, agent, key or skill does not exist, or is hidden from this token."""


class Conflict(ApiError):
    """The first request with this Idempotency-Key had not ended after the whole timeout; or the
    policy was changed, or the hold has ended, in between."""


class RateLimited(ApiError):
    """Too many requests; `retry_after_s` is when to try again, if the service says so."""


class Refused(ApiError):
    """A guardrail blocked the transaction, or it failed; its record is stored."""


class ServerError(ApiError):
    """The service failed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFoundError,
    405: BadRequest,
    409: Conflict,
    413: BadRequest,
    415: BadRequest,
    422: BadRequest,
    429: RateLimited,
}


def error_of(status: int, message: str, headers: Mapping[str, str], money: bool) -> ApiError:
    """Return the error of an answer."""
    # For the contract's other statuses the answer's own status gives the same class.
    error = _kind(500 if headers.get(CONTRACT_HEADER) == "500" else status, money)(status, message)
    rule = headers.get(RULE_HEADER)
    error.rule = None if rule is None else unquote(rule)
    error.transaction_id = headers.get(TRANSACTION_HEADER)
    error.retry_after_s = seconds(headers.get(RETRY_HEADER))
    return error


def seconds(header: str | None) -> float | None:
    """Return the time of a `Retry-After`: this service never sends a date."""
    if header is None or not header.isascii() or not header.isdecimal() or len(header) > 9:
        return None
    return float(header)


def _kind(status: int, money: bool) -> type[ApiError]:
    if status == 500 and money:
        return Refused
    if status >= 500:
        return ServerError
    return _BY_STATUS.get(status, ApiError)
