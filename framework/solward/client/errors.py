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

These are the statuses of the contract. With `ERROR_STATUS=semantic` the service may answer with
others; its header `Solward-Contract-Status` then has the contract's, which chooses the class.

No error contains the token.
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
        idempotency_key: the key of a money call whose result is not known, else None. The same call
            with this key returns the result, and pays at most once. An answer without the header
            `Solward-Api` comes from a gateway, which does not know the result.
    """

    idempotency_key: str | None = None


class Unreachable(ClientError):
    """The service did not answer."""


class BadAnswer(ClientError):
    """The answer is not from a Solward service of this version; a gateway may have sent it."""


class AmbiguousName(ClientError):
    """Several wallets or agents have the name; the message lists their ids."""


class Held(ClientError):
    """A person must approve the transaction first; nothing was sent, and `str()` says why.

    The same call with this `idempotency_key` returns the transaction's state, and pays at most
    once. If the hold's `repeats` is true, only that call makes the transaction, after the approval.

    Attributes:
        hold_id: see `SolwardClient.holds`.
        state: `held`, or `approved` if the transaction is approved and not carried out yet.
        expires_at: the time until which the hold may be approved.
        approve_at: the URL of the dashboard's page on which a person decides.
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
    """A webhook's delivery is not signed with the secret, or its signature is too old."""


class ApiError(ClientError):
    """The service answered with an error; `str()` is its text.

    Attributes:
        status: the answer's HTTP status.
        rule: the guardrail that blocked the transaction, else None.
        transaction_id: the id of the blocked or failed transaction's record, else None.
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
    """The token is missing or unknown, or the call needs the admin's token."""


class Forbidden(ApiError):
    """The token has no permission for the call."""


class NotFoundError(ApiError):
    """The wallet, agent, key or skill does not exist, or is hidden from this token."""


class Conflict(ApiError):
    """The first request with this Idempotency-Key did not end within the timeout; or the policy was
    changed, or the hold ended, in the meantime."""


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


def make_error(status: int, message: str, headers: Mapping[str, str], money: bool) -> ApiError:
    """Return the exception for an error answer."""
    # Each other status of the contract has the same class as the answer's own status.
    kind = _error_class(500 if headers.get(CONTRACT_HEADER) == "500" else status, money)
    error = kind(status, message)
    rule = headers.get(RULE_HEADER)
    error.rule = None if rule is None else unquote(rule)
    error.transaction_id = headers.get(TRANSACTION_HEADER)
    error.retry_after_s = retry_seconds(headers.get(RETRY_HEADER))
    return error


def retry_seconds(header: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; this service never sends a date in it."""
    if header is None or not header.isascii() or not header.isdecimal() or len(header) > 9:
        return None
    return float(header)


def _error_class(status: int, money: bool) -> type[ApiError]:
    if status == 500 and money:
        return Refused
    if status >= 500:
        return ServerError
    return _BY_STATUS.get(status, ApiError)
