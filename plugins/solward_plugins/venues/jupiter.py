"""jupiter: `GET /swap/v2/build` of the Jupiter Swap API (developers.jup.ag).

The address is configuration (`JUPITER_API_URL`), already bound to the client that is handed in.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from solward import (
    ASSOCIATED_TOKEN_PROGRAM,
    InvalidRequest,
    LedgerUnavailable,
    Quote,
    QuoteRequest,
    SwapInstructions,
    VenueContext,
    VenueSpec,
    hookimpl,
)

# Instructions of the associated token program: Create (in its old form as well), CreateIdempotent.
_CREATES = frozenset({b"", b"\x00", b"\x01"})

# Statuses that concern the request; others concern the service or its configuration.
_REFUSALS = frozenset({400, 422})
_LONGEST_REASON = 300


@hookimpl
def venue_spec() -> VenueSpec:
    """A venue for every mint the API can route."""
    return VenueSpec("jupiter", base_url_env="JUPITER_API_URL")


@hookimpl
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """The price `/swap/v2/build` gives a key that was never used, as the taker of a swap is.

    `/swap/v2/order` needs no taker, but its price is of routers that `/build` does not use.
    """
    query = _query(request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    body = await _build(context, query | {"taker": str(Keypair().pubkey())})
    try:
        return _quote(body)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise _unexpected() from None


@hookimpl
async def venue_instructions(
    quote: Quote, taker: str, destination: str, max_accounts: int | None, context: VenueContext
) -> SwapInstructions:
    """The swap of a quote at the price of now.

    Neither `payer` nor `nativeDestinationAccount` is ever sent: both put another key than the
    taker's into the swap instruction. SOL is sold from the taker's wrapped SOL account and
    arrives wrapped.
    """
    query = _query(quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    query |= {
        "taker": taker,
        "destinationTokenAccount": destination,
        "wrapAndUnwrapSol": "false",
    }
    if max_accounts is not None:
        query["maxAccounts"] = str(max_accounts)
    body = await _build(context, query)
    try:
        return SwapInstructions(
            quote=_quote(body),
            swap=_instruction(body["swapInstruction"]),
            accounts=_accounts_of(taker, body["setupInstructions"]),
            tables=_tables(body["addressesByLookupTableAddress"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation):
        raise _unexpected() from None


def _query(source: str, target: str, amount: int, slippage_bps: int) -> dict[str, str]:
    return {
        "inputMint": source,
        "outputMint": target,
        "amount": str(amount),
        "slippageBps": str(slippage_bps),
    }


def _quote(body: Mapping[str, Any]) -> Quote:
    """The offer of an answer; a swap asks anew, so nothing of it is passed back."""
    return Quote(
        input_mint=str(body["inputMint"]),
        output_mint=str(body["outputMint"]),
        in_amount=_integer(body["inAmount"]),
        out_amount=_integer(body["outAmount"]),
        minimum_out=_integer(body["otherAmountThreshold"]),
        slippage_bps=_integer(body["slippageBps"]),
        price_impact=_fraction(body.get("priceImpactPct")),
    )


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
        opens = str(instruction.program_id) == ASSOCIATED_TOKEN_PROGRAM
        if not opens or len(instruction.accounts) < 4:
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


async def _build(context: VenueContext, query: Mapping[str, str]) -> dict[str, Any]:
    try:
        response = await context.http.get("/swap/v2/build", params=query)
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
    """The JSON body, None if it is invalid."""
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


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
