"""Requests of the Jupiter Swap API: its rate limits are waited for, its refusals told in words."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from solward import InvalidRequest, LedgerUnavailable, VenueContext

# How long one call may wait for its turn; what waits longer is told when to come back.
PATIENCE_S = 10.0
# Where a refused request does not say when the next may come.
_PAUSE_S = 1.0
_SHORTEST_S = 0.05

# Statuses that concern the request; others concern the service or its configuration.
_REFUSALS = frozenset({400, 422})
_LONGEST_REASON = 300

# The documented codes; the API's own texts change with its versions.
_MEANINGS = {
    "NO_ROUTES_FOUND": "it has no route between these tokens for this amount",
    "COULD_NOT_FIND_ANY_ROUTE": "it has no route between these tokens for this amount",
    "ROUTE_PLAN_DOES_NOT_CONSUME_ALL_THE_AMOUNT": "its markets cannot trade all of this amount",
    "MARKET_NOT_FOUND": "a market of the route does not exist any more",
    "TOKEN_NOT_TRADABLE": "one of the tokens is not traded there",
    "NOT_SUPPORTED": "it does not support this swap",
    "CIRCULAR_ARBITRAGE_IS_DISABLED": "input and output are the same token",
    "CANNOT_COMPUTE_OTHER_AMOUNT_THRESHOLD": "no minimum follows from this amount and slippage",
    "MAX_ACCOUNT_GREATER_THAN_MAX": "the route names too many accounts",
    "FAILED_TO_GET_SWAP_AND_ACCOUNT_METAS": "it could not make the swap of its quote",
}

# Texts of a taker that does not hold what it sells, or lacks an account; none is documented for
# these calls. Where a text is taken for one by mistake, the swap is made in steps and works too.
_FUNDS = re.compile(
    r"(insufficient|not enough)[\s_-]+((token|account|user|taker)[\s_-]+)?"
    r"(funds?|balance|sol|lamports)\b"
    r"|(account|balance|wallet)\b.{0,60}\b(not found|not exist|not initiali[sz]ed)"
    r"|could not find[\s_-]+((token|user)[\s_-]+)?account|AccountNotFound|0x1788\b",
    re.IGNORECASE,
)
_FUNDS_CODES = frozenset({"INSUFFICIENT_FUNDS", "INSUFFICIENT_BALANCE", "6024"})


class NeedsFunds(InvalidRequest):
    """The API refuses because its taker does not hold what it sells."""


async def ask(
    context: VenueContext,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The JSON object a call answers; a request that comes too early is made again in time.

    Raises:
        InvalidRequest: the API refuses the request; `NeedsFunds` because of the taker's balances.
        LedgerUnavailable: it did not answer, or not in the documented shape.
    """
    deadline = time.monotonic() + PATIENCE_S
    paused = False
    while True:
        try:
            response = await context.http.request(method, path, params=query, json=body)
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise LedgerUnavailable(f"The swap venue did not answer ({kind})") from None
        wait = _wait(response)
        if wait is None or (not wait and paused):
            return _object(response)
        if time.monotonic() + wait > deadline:
            raise _limited(wait)
        # Without a time there is one more try: whether another helps is not known.
        paused = paused or not wait
        await asyncio.sleep(wait or _PAUSE_S)


def line(reason: object) -> str:
    """The venue's text, shortened and printable, because logs and models read it."""
    text = str(reason)[:_LONGEST_REASON]
    return "".join(each if each.isprintable() else " " for each in text)


def unexpected() -> LedgerUnavailable:
    """An answer that is not as documented."""
    return LedgerUnavailable("The swap venue's answer has an unexpected shape")


def _wait(response: httpx.Response) -> float | None:
    """Seconds until the request may be made again, 0 where the answer does not say; None: now it is
    answered."""
    after = _seconds(response.headers.get("retry-after"))
    if response.status_code == 503:
        return None if after is None else max(after, _SHORTEST_S)
    if response.status_code != 429:
        return None
    if after is None:
        reset = _seconds(response.headers.get("x-ratelimit-reset"))
        after = None if reset is None else reset - _clock(response)
    return 0.0 if after is None else max(after, _SHORTEST_S)


def _clock(response: httpx.Response) -> float:
    """The API's own time where it says it: the machine's clock may be off."""
    try:
        return parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return time.time()


def _seconds(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text.strip()):
        return None
    return float(text)


def _limited(wait: float) -> LedgerUnavailable:
    again = f"; it takes requests again in {wait:.0f} s" if wait else ""
    return LedgerUnavailable(
        f"The swap venue's rate limit is reached{again}. JUPITER_API_KEY of a larger plan raises it"
    )


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    status = response.status_code
    if status in _REFUSALS:
        raise _refusal(status, body if isinstance(body, dict) else {})
    if status == 401:
        raise LedgerUnavailable("The swap venue does not accept the key in JUPITER_API_KEY")
    if status == 403:
        raise LedgerUnavailable(
            "The swap venue forbids the request: the key in JUPITER_API_KEY lacks the permission,"
            " or a rule of its owner blocks it"
        )
    if status == 404:
        raise LedgerUnavailable(
            "The swap venue has no such call: check JUPITER_API_URL and JUPITER_API"
        )
    if status == 429:
        raise _limited(0)
    if status != 200:
        raise LedgerUnavailable(f"The swap venue answered with status {status}")
    if not isinstance(body, dict):
        raise unexpected()
    return body


def _refusal(status: int, body: Mapping[str, Any]) -> InvalidRequest:
    code = str(body.get("errorCode") or "")
    reason = body.get("error") or body.get("errorMessage")
    if code in _MEANINGS:
        return InvalidRequest(f"The swap venue refused: {_MEANINGS[code]} ({line(reason or code)})")
    if code in _FUNDS_CODES or _FUNDS.search(str(reason or "")[:1_000]):
        return NeedsFunds(f"The swap venue refused: {line(reason or code)}")
    return InvalidRequest(f"The swap venue refused: {line(reason or status)}")
