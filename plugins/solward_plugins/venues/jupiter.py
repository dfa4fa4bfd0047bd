"""jupiter: the Jupiter Swap API (developers.jup.ag), and whatever speaks its calls.

The address is configuration (`JUPITER_API_URL`), already bound to the client that is handed in.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from solward import (
    InvalidRequest,
    LedgerUnavailable,
    Quote,
    QuoteRequest,
    SwapInstructions,
    SwapTransaction,
    VenueContext,
    VenueSpec,
    hookimpl,
)

# Jupiter's aggregator program; the pools it routes through must be allowlisted too.
JUPITER_V6 = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"

_ASSOCIATED_ACCOUNTS = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
# Its instructions Create (in its old form as well) and CreateIdempotent.
_CREATES = frozenset({b"", b"\x00", b"\x01"})

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
        return _quote(body, body)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise _unexpected() from None


def _quote(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Quote:
    return Quote(
        input_mint=str(body["inputMint"]),
        output_mint=str(body["outputMint"]),
        in_amount=_integer(body["inAmount"]),
        out_amount=_integer(body["outAmount"]),
        minimum_out=_integer(body["otherAmountThreshold"]),
        slippage_bps=_integer(body["slippageBps"]),
        price_impact=_fraction(body.get("priceImpactPct")),
        raw=raw,
    )


@hookimpl
async def venue_instructions(
    quote: Quote, taker: str, destination: str, max_accounts: int | None, context: VenueContext
) -> SwapInstructions:
    """`GET /swap/v2/build`: the swap of a quote at the price of now.

    Neither `payer` nor `nativeDestinationAccount` is ever sent: both put another key than the
    taker's into the swap instruction. SOL is sold from the taker's wrapped SOL account and
    arrives wrapped.
    """
    query = {
        "inputMint": quote.input_mint,
        "outputMint": quote.output_mint,
        "amount": str(quote.in_amount),
        "slippageBps": str(quote.slippage_bps),
        "taker": taker,
        "destinationTokenAccount": destination,
        "wrapAndUnwrapSol": "false",
    }
    if max_accounts is not None:
        query["maxAccounts"] = str(max_accounts)
    body = await _answer(context, "GET", "/swap/v2/build", params=query)
    try:
        return SwapInstructions(
            quote=_quote(body, {}),
            swap=_instruction(body["swapInstruction"]),
            accounts=_accounts_of(taker, body["setupInstructions"]),
            tables=_tables(body["addressesByLookupTableAddress"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation):
        raise _unexpected() from None


def _instruction(body: Mapping[str, Any]) -> Instruction:
    accounts = [
        AccountMeta(
            Pubkey.from_string(each["pubkey"]),
            is_signer=_flag(each["isSigner"]),
            is_writable=_flag(each["isWritable"]),
        )
        for each in body["accounts"]
    ]
    data = base64.b64decode(body["data"], validate=True)
    return Instruction(Pubkey.from_string(body["programId"]), data, accounts)


def _accounts_of(taker: str, setup: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """The mints whose associated accounts of the taker the setup opens; the rest is dropped."""
    mints: dict[str, None] = {}
    for instruction in map(_instruction, setup):
        if str(instruction.program_id) != _ASSOCIATED_ACCOUNTS or len(instruction.accounts) < 4:
            continue
        _payer, _account, owner, mint = (str(meta.pubkey) for meta in instruction.accounts[:4])
        if owner == taker and bytes(instruction.data) in _CREATES:
            mints[mint] = None
    return tuple(mints)


def _tables(body: Mapping[str, list[str]] | None) -> dict[str, tuple[str, ...]]:
    return {_address(table): tuple(map(_address, held)) for table, held in (body or {}).items()}


def _address(text: str) -> str:
    return str(Pubkey.from_string(text))


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("neither true nor false")


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
