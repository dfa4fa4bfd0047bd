"""jupiter: the Jupiter Swap API (dev.jup.ag), and whatever speaks its two calls.

The address is configuration (`JUPITER_API_URL`), already bound to the client that is handed in.
"""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx

from solward import (
    InvalidRequest,
    LedgerUnavailable,
    Quote,
    QuoteRequest,
    SwapTransaction,
    VenueContext,
    VenueSpec,
    hookimpl,
)

# Jupiter's aggregator program; the pools it routes through must be allowlisted too.
JUPITER_V6 = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"

# The API's own default is up to 5,000,000 lamports; the guardrails allow 1,000,000 in all.
MAX_PRIORITY_LAMPORTS = 900_000

# Statuses that concern the request; others concern the service or its configuration.
_REFUSALS = frozenset({400, 422})
_LONGEST_REASON = 300


@hookimpl
def venue_spec() -> VenueSpec:
    """A venue for every mint the API can route."""
    return VenueSpec("jupiter", frozenset({JUPITER_V6}))


@hookimpl
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """`GET /swap/v1/quote` for an exact input amount."""
    query = {
        "inputMint": request.input_mint,
        "outputMint": request.output_mint,
        "amount": str(request.amount),
        "slippageBps": str(request.slippage_bps),
        "swapMode": "ExactIn",
    }
    body = await _answer(context, "GET", "/swap/v1/quote", params=query)
    try:
        return Quote(
            input_mint=str(body["inputMint"]),
            output_mint=str(body["outputMint"]),
            in_amount=_integer(body["inAmount"]),
            out_amount=_integer(body["outAmount"]),
            minimum_out=_integer(body["otherAmountThreshold"]),
            slippage_bps=_integer(body["slippageBps"]),
            price_impact=_fraction(body.get("priceImpactPct")),
            raw=body,
        )
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise _unexpected() from None


@hookimpl
async def venue_swap(quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
    """`POST /swap/v1/swap` for a quote; wraps and unwraps SOL inside the transaction."""
    body = await _answer(
        context,
        "POST",
        "/swap/v1/swap",
        json={
            "quoteResponse": dict(quote.raw),
            "userPublicKey": wallet,
            "wrapAndUnwrapSol": True,
            "dynamicComputeUnitLimit": True,
            "prioritizationFeeLamports": {
                "priorityLevelWithMaxLamports": {
                    "priorityLevel": "high",
                    "maxLamports": MAX_PRIORITY_LAMPORTS,
                }
            },
        },
    )
    try:
        wire = base64.b64decode(body["swapTransaction"], validate=True)
        return SwapTransaction(wire, _integer(body["lastValidBlockHeight"]))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise _unexpected() from None


async def _answer(context: VenueContext, method: str, path: str, **options: Any) -> dict[str, Any]:
    try:
        response = await context.http.request(method, path, **options)
    except httpx.HTTPError as error:
        raise LedgerUnavailable(f"The swap venue did not answer ({type(error).__name__})") from None
    body = _parsed(response)
    if response.status_code in _REFUSALS:
        reason = body.get("error") if isinstance(body, dict) else None
        raise InvalidRequest(f"The swap venue refused: {_line(reason or response.status_code)}")
    if response.status_code != 200:
        raise LedgerUnavailable(f"The swap venue answered with status {response.status_code}")
    if not isinstance(body, dict):
        raise _unexpected()
    return body


def _parsed(response: httpx.Response) -> Any:
    """The JSON body, None if it is invalid; NaN could not be sent back in the swap call."""
    try:
        return response.json(parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _line(reason: object) -> str:
    """The venue's text, shortened and printable, because logs and models read it."""
    text = str(reason)[:_LONGEST_REASON]
    return "".join(each if each.isprintable() else " " for each in text)


def _integer(value: object) -> int:
    """An amount as the API writes it: digits, as a string or a number.

    Raises:
        ValueError: a fraction, a sign, or anything else that `int` would accept.
    """
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20):
        raise ValueError("not an amount")
    return int(text)


def _fraction(value: object) -> Decimal:
    """The price impact; some routes have none.

    Raises:
        ValueError, InvalidOperation: not a finite number.
    """
    fraction = Decimal("0" if value is None or value == "" else str(value))
    if not fraction.is_finite():
        raise ValueError("not a finite number")
    return fraction


def _unexpected() -> LedgerUnavailable:
    return LedgerUnavailable("The swap venue's answer has an unexpected shape")
