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

# Jupiter's aggregator program; the pools it routes through must be allowlisted besides.
JUPITER_V6 = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"


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
            in_amount=int(body["inAmount"]),
            out_amount=int(body["outAmount"]),
            minimum_out=int(body["otherAmountThreshold"]),
            slippage_bps=int(body["slippageBps"]),
            price_impact=Decimal(str(body.get("priceImpactPct") or 0)),
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
        },
    )
    try:
        wire = base64.b64decode(body["swapTransaction"], validate=True)
        return SwapTransaction(wire, int(body["lastValidBlockHeight"]))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise _unexpected() from None


async def _answer(context: VenueContext, method: str, path: str, **options: Any) -> dict[str, Any]:
    try:
        response = await context.http.request(method, path, **options)
    except httpx.HTTPError as error:
        raise LedgerUnavailable(f"The swap venue did not answer ({type(error).__name__})") from None
    try:
        body = response.json()
    except ValueError:
        body = None
    if 400 <= response.status_code < 500 and response.status_code != 429:
        said = body.get("error") if isinstance(body, dict) else None
        raise InvalidRequest(f"The swap venue refused: {str(said or response.status_code)[:300]}")
    if response.status_code != 200:
        raise LedgerUnavailable(f"The swap venue answered with status {response.status_code}")
    if not isinstance(body, dict):
        raise _unexpected()
    return body


def _unexpected() -> LedgerUnavailable:
    return LedgerUnavailable("The swap venue's answer has an unexpected shape")
