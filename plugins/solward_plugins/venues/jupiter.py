"""jupiter: the Jupiter Swap API (developers.jup.ag).

`JUPITER_API` selects the API's calls for a swap; the quote always comes from the same calls:

    build   `GET /swap/v2/build`: the router's instruction, for one transaction of wallet and pocket
    order   `GET /swap/v2/order`: a whole transaction of the best of several routers, in steps
    v1      `GET /swap/v1/quote`, then `POST /swap/v1/swap-instructions`: the version before

`build` and `v1` are called again for a funded pocket if the API requires a taker that already holds
the sold asset. The address is configuration (`JUPITER_API_URL`); the HTTP client that is passed in
already has it.

Requests wait for the API's rate limits; refusals become errors with a readable text.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
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
    SkillError,
    SwapInstructions,
    SwapTransaction,
    VenueContext,
    VenueSpec,
    hookimpl,
    read_json,
    write_json,
)

_BUILD, _ORDER = "/swap/v2/build", "/swap/v2/order"
_QUOTE, _INSTRUCTIONS = "/swap/v1/quote", "/swap/v1/swap-instructions"

# Instructions of the associated token program: Create (in its old form as well), CreateIdempotent.
_CREATES = frozenset({b"", b"\x00", b"\x01"})

# Makers of `jupiterz` sign inside of `/execute`, which nobody calls here.
_NO_MAKERS = "jupiterz"
# The router of `/build`, alone.
_ONE_ROUTER = "jupiterz,dflow,okx"

# (router is jupiterz, `errorCode`) of an order that has a price and no transaction.
_ORDER_ERRORS = {
    (False, 1): "the taker does not hold what it sells",
    (False, 2): "the taker has too little SOL for fee and rent",
    (False, 3): "the amount is too small for its fee to be sponsored",
    (True, 1): "the taker does not hold what it sells",
    (True, 2): "the taker lacks a token account",
    (True, 3): "no transaction could be made for the quote",
}

# By this code the swap is made in steps, by `venue_swap`.
_FUNDS_FIRST = "funds_first"

# An active lookup table begins with its state and the slot of its deactivation, which is never; its
# addresses follow the header.
_ACTIVE_TABLE = (1).to_bytes(4, "little") + b"\xff" * 8
_TABLE_HEADER_BYTES = 56

# A swap's instructions with the addresses of their lookup tables take 100 KiB.
_MAX_ANSWER_BYTES = 4 << 20

# Exceptions of the functions below for answers of a wrong shape.
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, InvalidOperation)

# Maximum wait of a call for its turn; a longer wait becomes an error with the time to retry.
PATIENCE_S = 10.0
# Seconds to wait if a refusal does not say when to retry.
_PAUSE_S = 1.0
_SHORTEST_S = 0.05

# Statuses that concern the request; others concern the service or its configuration.
_REFUSALS = frozenset({400, 422})
_STATUSES = {
    401: "The swap venue does not accept the key in JUPITER_API_KEY",
    403: "The swap venue forbids the request: the key in JUPITER_API_KEY lacks the permission, or a"
    " rule of its owner blocks it",
    404: "The swap venue has no such call: check JUPITER_API_URL and JUPITER_API",
}
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
    "CANNOT_COMPUTE_OTHER_AMOUNT_THRESHOLD": "this amount and slippage give no minimum",
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


@hookimpl
def venue_spec() -> VenueSpec:
    """Return a venue for every mint the API can route."""
    return VenueSpec("jupiter", base_url_env="JUPITER_API_URL")


@hookimpl
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """Quote a price by the same calls of the API that make the swap."""
    query = _query(request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    api = _api_name(context)
    if api == "order":
        return _parse_order(await _order(context, query, _NO_MAKERS))
    if api == "v1":
        return await _v1_quote(context, query, None)
    # A price has a taker too: a key that was never used, as the taker of a swap is one.
    try:
        body = await fetch(context, "GET", _BUILD, query=query | {"taker": str(Keypair().pubkey())})
    except NeedsFunds:
        # The same router tells its price without a taker; its fee makes that one a little lower.
        return _parse_order(await _order(context, query, _ONE_ROUTER))
    return _parse_quote(body, {})


@hookimpl
async def venue_instructions(
    quote: Quote, taker: str, destination: str, max_accounts: int | None, context: VenueContext
) -> SwapInstructions:
    """Return the swap of a quote, by `build` at the present price.

    Neither `payer` nor `nativeDestinationAccount` is ever sent: both put another key than the
    taker's into the swap instruction. SOL is sold from the taker's wrapped SOL account and
    arrives wrapped.
    """
    api = _api_name(context)
    if api == "order":
        raise SkillError(_FUNDS_FIRST, "The swap venue requires a taker with the sold asset")
    try:
        if api == "v1":
            return await _v1_instructions(quote, taker, destination, max_accounts, context)
        query = _repeat_query(quote, max_accounts) | {
            "taker": taker,
            "destinationTokenAccount": destination,
            "wrapAndUnwrapSol": "false",
        }
        body = await fetch(context, "GET", _BUILD, query=query)
    except NeedsFunds as error:
        raise SkillError(_FUNDS_FIRST, str(error)) from None
    try:
        return SwapInstructions(
            quote=_parse_quote(body, {}),
            swap=_parse_instruction(body["swapInstruction"]),
            accounts=_opened_mints(taker, body["setupInstructions"]),
            tables=_parse_tables(body["addressesByLookupTableAddress"]),
        )
    except _MALFORMED:
        raise unexpected_answer() from None


@hookimpl
async def venue_swap(quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
    """Return an order's transaction, for a pocket that already holds the sold asset.

    The other calls return instructions, for a transaction of Solward's that enforces the minimum; a
    whole transaction of theirs would not enforce it.
    """
    if _api_name(context) != "order":
        raise InvalidRequest("The swap venue refuses even a taker with the sold asset")
    body = await _order(context, _repeat_query(quote, None) | {"taker": wallet}, _NO_MAKERS)
    try:
        wire = base64.b64decode(body["transaction"] or "", validate=True)
        router, code = str(body["router"]), body.get("errorCode")
        payer = body.get("signatureFeePayer")
        height = _parse_integer(body["lastValidBlockHeight"]) if wire else 0
    except _MALFORMED:
        raise unexpected_answer() from None
    if not wire:
        known = _ORDER_ERRORS.get((router == "jupiterz", code)) if type(code) is int else None
        reason = known or printable(body.get("errorMessage") or body.get("error") or "no reason")
        raise InvalidRequest(f"The swap venue made no transaction: {reason}")
    if payer is not None and payer != wallet:
        raise LedgerUnavailable("The swap venue's order has another signer, who signs only there")
    newer = _parse_order(body)
    if newer.minimum_out < quote.minimum_out:
        # Its minimum would be below that of the quote for which the slippage was given.
        raise InvalidRequest(
            f"The price moved: the swap venue now promises {newer.minimum_out} units, but it quoted"
            f" {quote.minimum_out}"
        )
    return SwapTransaction(wire, height)


async def _order(context: VenueContext, query: Mapping[str, str], without: str) -> dict[str, Any]:
    return await fetch(
        context, "GET", _ORDER, query={**query, "swapMode": "ExactIn", "excludeRouters": without}
    )


def _parse_order(body: Mapping[str, Any]) -> Quote:
    """Return an order's offer. Orders have losses with the opposite sign of quotes, in percent."""
    try:
        points = body.get("priceImpact")
        loss = -_impact(body.get("priceImpactPct")) if points is None else -_impact(points) / 100
    except _MALFORMED:
        raise unexpected_answer() from None
    return _parse_quote({**body, "priceImpactPct": str(loss)}, {})


# Version 1.


async def _v1_quote(
    context: VenueContext, query: Mapping[str, str], max_accounts: int | None
) -> Quote:
    fewer = {} if max_accounts is None else {"maxAccounts": str(max_accounts)}
    body = await fetch(context, "GET", _QUOTE, query={**query, **fewer})
    # The quote is sent back unchanged, because some of its fields are not documented.
    return _parse_quote(body, {"quoteResponse": body})


async def _v1_instructions(
    quote: Quote,
    taker: str,
    destination: str,
    max_accounts: int | None,
    context: VenueContext,
) -> SwapInstructions:
    offer = quote
    if max_accounts is not None or "quoteResponse" not in quote.raw:
        # Request a quote over fewer accounts, with at least the first quote's minimum.
        offer = await _v1_quote(context, _repeat_query(quote, None), max_accounts)
    body = await fetch(
        context,
        "POST",
        _INSTRUCTIONS,
        body={
            "userPublicKey": taker,
            "quoteResponse": offer.raw["quoteResponse"],
            "destinationTokenAccount": destination,
            "wrapAndUnwrapSol": False,
            # Its accounts are made in the same transaction, so there is nothing to be seen.
            "skipUserAccountsRpcCalls": True,
        },
    )
    try:
        swap = _parse_instruction(body["swapInstruction"])
        accounts = _opened_mints(taker, body["setupInstructions"])
        tables = [_address(each) for each in body["addressLookupTableAddresses"]]
    except _MALFORMED:
        raise unexpected_answer() from None
    return SwapInstructions(offer, swap, accounts, await _read_tables(tables, context))


async def _read_tables(tables: Sequence[str], context: VenueContext) -> dict[str, tuple[str, ...]]:
    """Read the addresses in lookup tables; without a table the transaction only gets longer."""
    found = await context.ledger.accounts(tables) if tables else {}
    return {
        table: tuple(
            str(Pubkey(state.data[at : at + 32]))
            for at in range(_TABLE_HEADER_BYTES, len(state.data) - 31, 32)
        )
        for table, state in found.items()
        if state is not None and state.data[:12] == _ACTIVE_TABLE
    }


def _api_name(context: VenueContext) -> str:
    return context.options.get("JUPITER_API", "build")


def _query(source: str, target: str, amount: int, slippage_bps: int) -> dict[str, str]:
    return {
        "inputMint": source,
        "outputMint": target,
        "amount": str(amount),
        "slippageBps": str(slippage_bps),
    }


def _repeat_query(quote: Quote, max_accounts: int | None) -> dict[str, str]:
    """Return the request of a quote, for the same swap at the present price."""
    query = _query(quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    return query if max_accounts is None else query | {"maxAccounts": str(max_accounts)}


def _parse_quote(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Quote:
    try:
        return Quote(
            input_mint=str(body["inputMint"]),
            output_mint=str(body["outputMint"]),
            in_amount=_parse_integer(body["inAmount"]),
            out_amount=_parse_integer(body["outAmount"]),
            minimum_out=_parse_integer(body["otherAmountThreshold"]),
            slippage_bps=_parse_integer(body["slippageBps"]),
            price_impact=_impact(body.get("priceImpactPct")),
            raw=raw,
        )
    except _MALFORMED:
        raise unexpected_answer() from None


def _parse_instruction(body: Mapping[str, Any]) -> Instruction:
    accounts = [
        AccountMeta(
            Pubkey.from_string(each["pubkey"]),
            is_signer=_parse_flag(each["isSigner"]),
            is_writable=_parse_flag(each["isWritable"]),
        )
        for each in body["accounts"]
    ]
    data = base64.b64decode(body["data"], validate=True)
    return Instruction(Pubkey.from_string(body["programId"]), data, accounts)


def _opened_mints(taker: str, setup: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the mints of the taker's associated accounts that the setup opens; ignore the rest."""
    mints: dict[str, None] = {}
    for instruction in map(_parse_instruction, setup):
        opens = str(instruction.program_id) == ASSOCIATED_TOKEN_PROGRAM
        if not opens or len(instruction.accounts) < 4:
            continue
        _payer, _account, owner, mint = (str(meta.pubkey) for meta in instruction.accounts[:4])
        if owner == taker and bytes(instruction.data) in _CREATES:
            mints[mint] = None
    return tuple(mints)


def _parse_tables(body: Mapping[str, list[str]] | None) -> dict[str, tuple[str, ...]]:
    return {_address(table): tuple(map(_address, held)) for table, held in (body or {}).items()}


def _address(text: str) -> str:
    return str(Pubkey.from_string(text))


def _parse_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("neither true nor false")


def _parse_integer(value: object) -> int:
    """Convert an amount of the API, which is digits as a string or a number.

    Raises:
        ValueError: a fraction, a sign, or anything else that `int` would accept.
    """
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20):
        raise ValueError("not an amount")
    return int(text)


def _impact(value: object) -> Decimal:
    """Return the price impact, which some routes lack.

    Raises:
        ValueError, InvalidOperation: not a finite number.
    """
    fraction = Decimal("0" if value is None or value == "" else str(value))
    if not fraction.is_finite():
        raise ValueError("not a finite number")
    return fraction


class NeedsFunds(InvalidRequest):
    """The API refuses because the taker does not hold the asset to be sold."""


async def fetch(
    context: VenueContext,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Call the API and return its JSON object; a rate-limited request is repeated when allowed.

    Raises:
        InvalidRequest: the API refuses the request; `NeedsFunds` because of the taker's balances.
        LedgerUnavailable: it did not answer, or not in the documented shape.
    """
    sent: dict[str, Any] = {}
    if body is not None:
        sent = {"content": write_json(body), "headers": {"Content-Type": "application/json"}}
    deadline = time.monotonic() + PATIENCE_S
    paused = False
    while True:
        try:
            response = await context.http.request(method, path, params=query, **sent)
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise LedgerUnavailable(f"The swap venue did not answer ({kind})") from None
        wait = _retry_wait(response)
        if wait is None or (not wait and paused):
            return _parse_object(response)
        if time.monotonic() + wait > deadline:
            raise _rate_limit_error(wait)
        # Without a time there is one more try: whether another helps is not known.
        paused = paused or not wait
        await asyncio.sleep(wait or _PAUSE_S)


def printable(reason: object) -> str:
    """Return the venue's text, shortened and printable, because logs and models read it."""
    text = str(reason)[:_LONGEST_REASON]
    return "".join(each if each.isprintable() else " " for each in text)


def unexpected_answer() -> LedgerUnavailable:
    """Return the error for an answer that differs from the API's documentation."""
    return LedgerUnavailable("The swap venue's answer has an unexpected shape")


def _retry_wait(response: httpx.Response) -> float | None:
    """Return seconds until the request may be repeated, 0 if unknown; None if it is answered."""
    after = _parse_seconds(response.headers.get("retry-after"))
    if response.status_code == 503:
        return None if after is None else max(after, _SHORTEST_S)
    if response.status_code != 429:
        return None
    if after is None:
        reset = _parse_seconds(response.headers.get("x-ratelimit-reset"))
        after = None if reset is None else reset - _api_time(response)
    return 0.0 if after is None else max(after, _SHORTEST_S)


def _api_time(response: httpx.Response) -> float:
    """Return the API's own time if it sends one, because the machine's clock may be off."""
    try:
        return parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return time.time()


def _parse_seconds(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text.strip()):
        return None
    return float(text)


def _rate_limit_error(wait: float) -> LedgerUnavailable:
    again = f"; it takes requests again in {wait:.0f} s" if wait else ""
    return LedgerUnavailable(
        f"The swap venue's rate limit is reached{again}. JUPITER_API_KEY of a larger plan raises it"
    )


def _parse_object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = read_json(response.content, "The answer", _MAX_ANSWER_BYTES)
    except InvalidRequest:
        body = None
    status = response.status_code
    if status in _REFUSALS:
        raise _refusal_error(status, body if isinstance(body, dict) else {})
    if status == 429:
        raise _rate_limit_error(0)
    if status != 200:
        told = f"The swap venue answered with status {status}"
        raise LedgerUnavailable(_STATUSES.get(status, told))
    if not isinstance(body, dict):
        raise unexpected_answer()
    return body


def _refusal_error(status: int, body: Mapping[str, Any]) -> InvalidRequest:
    code = str(body.get("errorCode") or "")
    reason = body.get("error") or body.get("errorMessage")
    if code in _MEANINGS:
        return InvalidRequest(
            f"The swap venue refused: {_MEANINGS[code]} ({printable(reason or code)})"
        )
    if code in _FUNDS_CODES or _FUNDS.search(str(reason or "")[:1_000]):
        return NeedsFunds(f"The swap venue refused: {printable(reason or code)}")
    return InvalidRequest(f"The swap venue refused: {printable(reason or status)}")
