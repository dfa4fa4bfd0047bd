"""What a node's refusal says of its rate limits: how long to wait, and whether for one method only.

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

from solward.vault.ledger.patience import NodeBusy

# Codes that providers send in the body for "over your rate"; with HTTP status 200, too.
RATE_CODES: Final = frozenset({429, -32429, -32029})
# Agave's "node is behind" (rpc-client-api/src/custom_error.rs), which some gateways use for their
# rate limit.
UNHEALTHY: Final = -32005
# No longer wait is believed: what lasts longer is tried again after it.
MAX_WAIT_S: Final = 60.0

_RATE: Final = re.compile(r"rate.?limit|too many requests|requests? per second", re.IGNORECASE)
_ONE_METHOD: Final = re.compile(
    r"specific rpc call|this method|per.method|method.{0,12}limit", re.IGNORECASE
)
_RESET: Final = re.compile(r"\b(?:reset|t)=(\d+)")
# Smaller numbers are seconds from now; from 1e12 on they are milliseconds.
_UNIX_S: Final = 1e9
_UNIX_MS: Final = 1e12


def busy(
    method: str, status: int, code: int | None, message: str, headers: Mapping[str, str]
) -> NodeBusy | None:
    """The refusal of a call as a `NodeBusy`; None where it is another one.

    Args:
        status: of HTTP.
        code: of the JSON-RPC error object, None where there is none.
        message: the error object's, scrubbed.
        headers: by name, whatever their case.
    """
    limited = status == 429 or code in RATE_CODES or (code == UNHEALTHY and _RATE.search(message))
    wait_s = wait_of(headers)
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


def wait_of(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait by these headers, at most `MAX_WAIT_S`; None where they do not say.

    Args:
        now: the Unix time.
    """
    now = time.time() if now is None else now
    found = _retry_after(headers.get("Retry-After", ""), now)
    if found is None:
        for name in ("RateLimit-Reset", "X-RateLimit-Reset"):
            found = _reset(headers.get(name, ""), now) if found is None else found
    if found is None:
        named = _RESET.search(headers.get("RateLimit", ""))
        found = float(named[1]) if named else None
    return None if found is None else min(max(found, 0.0), MAX_WAIT_S)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _retry_after(text: str, now: float) -> float | None:
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (ValueError, OverflowError):
        return None


def _reset(text: str, now: float) -> float | None:
    number = _number(text)
    if number is None or number < _UNIX_S:
        return number
    return (number / 1000 if number >= _UNIX_MS else number) - now


def json_error(answer: Any) -> tuple[int, str, Any] | None:
    """Code, message and data of a JSON-RPC error response; None where it is none."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if not isinstance(error, Mapping) or type(error.get("code", 0)) is not int:
        return None
    return error.get("code", 0), str(error.get("message", "")), error.get("data")
