"""Interprets a node's HTTP answer: the result of a JSON-RPC call, or why there is no result. For a
rate limit, it tells how long to wait, and whether for one method only.

`Retry-After` is RFC 9110's (seconds or a date). Public Solana nodes send it with
`X-RateLimit-Method-Remaining`, `-Rps-Remaining` and `-Conn-Remaining`; other providers send
`X-RateLimit-Reset`, as a Unix time or as seconds, or the `RateLimit` fields of the IETF's drafts.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from solward.support import jsontext
from solward.support.clean_text import cleaned
from solward.telemetry.scrub import scrub_start
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger.patience import NodeBusy, NodeDenies

# Methods that some plans or providers do not serve; a refusal says nothing about the node.
OPTIONAL: Final = frozenset(
    {"getAgGenesisCert", "getProgramAccounts", "getRecentPerformanceSamples"}
)
# Called once, on one node, because another try might act twice. The faucet sends refusals.
ONCE: Final = frozenset({"requestAirdrop"})
# Among the refusals (4xx): temporary refusals, and refusals of this caller for any call.
_LATER = frozenset({408, 425, 429})
_DENIED = frozenset({401, 402, 403})
# The maximum of an answer's body: an account of the largest size, 10 MiB, needs 14 MiB in base64.
MOST_ANSWER_BYTES: Final = jsontext.MAX_BYTES

# Codes that providers send in the body for "over your rate", even with HTTP status 200.
RATE_CODES: Final = frozenset({429, -32429, -32029})
# Agave's "node is behind" (rpc-client-api/src/custom_error.rs). Some gateways use it for rate
# limits.
UNHEALTHY: Final = -32005
# The maximum characters of a node's text, and of an error's data.
_LONGEST: Final = 500
_LONGEST_DATA: Final = 64 * 1024
# The longest wait that is respected; after it, the node is asked again.
MAX_WAIT_S: Final = 60.0

_RATE: Final = re.compile(r"rate.?limit|too many requests|requests? per second", re.IGNORECASE)
_ONE_METHOD: Final = re.compile(
    r"specific rpc call|this method|per.method|method.{0,12}limit", re.IGNORECASE
)
_RESET: Final = re.compile(r"\b(?:reset|t)=(\d+)")
# Smaller numbers are seconds from now; from 1e12 on they are milliseconds.
_UNIX_S: Final = 1e9
_UNIX_MS: Final = 1e12


class NoAnswer(Exception):
    """The reason why a node did not answer, without its address."""


class MalformedAnswer(LedgerUnavailable):
    """Raised if a node's result does not have the form that its method returns."""


class RequestFailure(LedgerUnavailable):
    """Raised for a call without a result if the request, not the node, may be at fault."""


class ForeignResponse(LedgerUnavailable):
    """Raised for a response to another request of this process, or to no request."""


class LongAnswer(NoAnswer):
    """Raised if an answer's body exceeds the maximum that is read."""

    def __init__(self, most: int) -> None:
        super().__init__(f"its answer is longer than {most >> 20} MiB")


def request(number: int, method: str, params: bytes) -> bytes:
    """Return the JSON-RPC request with this id; `params` are JSON."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}' % (
        number,
        method.encode("ascii"),
        params,
    )


def parsed(body: bytes) -> Any:
    """Return the JSON of a body; None if the body is not JSON."""
    try:
        return jsontext.read_fast(body)
    except (ValueError, RecursionError):
        return None


def no_answer(method: str, error: NoAnswer) -> LedgerUnavailable:
    """Return the error for a call that got no answer."""
    kind = RequestFailure if isinstance(error, LongAnswer) else LedgerUnavailable
    return kind(f"The ledger did not answer {method} ({error})")


def result(
    number: int | None, method: str, status: int, headers: Mapping[str, str], answer: Any
) -> Any:
    """Return the `result` of a call's response; raises an error for any other answer.

    Args:
        number: the request's id; None if no response can be to this request.
        status: the HTTP status.

    Raises:
        NodeBusy: the node says that it will answer later.
        ForeignResponse: the response has another id.
        LedgerRejected, LedgerUnavailable: see `Transport.call`.
    """
    is_own = _is_response_to(number, answer)
    try:
        found = _checked_result(method, status, headers, answer)
    except LedgerRejected:
        if is_own:
            raise
    else:
        if is_own:
            return found
    raise ForeignResponse(f"The ledger's answer to {method} is for another request")


def _is_response_to(number: int | None, answer: Any) -> bool:
    if not isinstance(answer, dict):
        return True
    given = answer.get("id")
    if given is None:
        # An error may have no id (JSON-RPC 2.0, 5).
        return bool(answer.get("error"))
    return type(given) is int and given == number


def _checked_result(method: str, status: int, headers: Mapping[str, str], answer: Any) -> Any:
    if (
        status == 200
        and isinstance(answer, dict)
        and not answer.get("error")
        and "result" in answer
    ):
        return answer["result"]
    code, message, data = json_error(answer) or (None, "", None)
    message, data = scrub_node_text(message), scrub_node_data(data)
    limited = busy(method, status, code, message, headers)
    if limited is not None:
        raise limited
    if status // 100 != 2:
        refused = is_refusal(status)
        if refused and (method in OPTIONAL or (code and status not in _DENIED)):
            raise LedgerRejected(code or status, message or f"HTTP {status}", data)
        says = f": {message}" if message else ""
        raise (NodeDenies if refused else LedgerUnavailable)(
            f"The ledger did not answer {method} (HTTP {status}{says})"
        )
    if answer is None:
        raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON")
    if code is not None:
        raise LedgerRejected(code, message, data)
    raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON-RPC response")


def scrub_node_text(text: str) -> str:
    """Return a node's text, scrubbed so that it may be stored and shown. A provider may quote its
    own address with the key in it, and a lying node may write anything."""
    return cleaned(scrub_start(text, _LONGEST))


def scrub_node_data(data: Any) -> Any:
    """Return an error's data with each text scrubbed by `scrub_node_text`; None if it has more than
    `_LONGEST_DATA` characters of JSON."""
    if data is None or len(msgspec.json.encode(data)) > _LONGEST_DATA:
        return None
    return _scrub_data(data)


def _scrub_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {scrub_node_text(name): _scrub_data(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_scrub_data(each) for each in value]
    return scrub_node_text(value) if isinstance(value, str) else value


def is_refusal(status: int) -> bool:
    """Return whether an HTTP status is a permanent refusal of the request."""
    return status // 100 == 4 and status not in _LATER


def busy(
    method: str, status: int, code: int | None, message: str, headers: Mapping[str, str]
) -> NodeBusy | None:
    """Return a `NodeBusy` if the node refused a call only temporarily; None for other answers.

    Args:
        status: the HTTP status.
        code: code of the JSON-RPC error object; None without such an object.
        message: the error object's message, scrubbed.
        headers: HTTP headers; the case of their names does not matter.
    """
    limited = status == 429 or code in RATE_CODES or (code == UNHEALTHY and _RATE.search(message))
    wait_s = wait_seconds(headers)
    if not limited and (status // 100 != 5 or wait_s is None):
        return None
    why = f"HTTP {status}" if status != 200 else f"code {code}"
    says = f": {message}" if message else ""
    wait = "" if wait_s is None else f"; it asks to wait {math.ceil(wait_s)} s"
    one = bool(limited) and (
        headers.get("X-RateLimit-Method-Remaining") == "0" or bool(_ONE_METHOD.search(message))
    )
    text = f"The ledger node is busy and did not answer {method} ({why}{says}){wait}"
    return NodeBusy(text, wait_s, method_only=one)


def wait_seconds(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds to wait by these headers, at most `MAX_WAIT_S`; None if not stated.

    Args:
        now: the current Unix time.
    """
    now = time.time() if now is None else now
    found = _retry_after(headers.get("Retry-After", ""), now)
    for name in ("RateLimit-Reset", "X-RateLimit-Reset"):
        found = _reset_wait(headers.get(name, ""), now) if found is None else found
    if found is None:
        named = _RESET.search(headers.get("RateLimit", ""))
        found = float(named[1]) if named else None
    return None if found is None else min(max(found, 0.0), MAX_WAIT_S)


def _wait_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _retry_after(text: str, now: float) -> float | None:
    seconds = _wait_number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (ValueError, OverflowError):
        return None


def _reset_wait(text: str, now: float) -> float | None:
    number = _wait_number(text)
    if number is None or number < _UNIX_S:
        return number
    return (number / 1000 if number >= _UNIX_MS else number) - now


def json_error(answer: Any) -> tuple[int, str, Any] | None:
    """Return code, message and data of a JSON-RPC error response; None for other responses."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if not isinstance(error, Mapping) or type(error.get("code", 0)) is not int:
        return None
    return error.get("code", 0), str(error.get("message", "")), error.get("data")
