"""The checks of a swap venue: what it offers, what its swap instruction names, how it fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from solward.errors import InvalidRequest, LedgerUnavailable, SolwardError
from solward.registry.loaded import LoadedVenue
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.testing.conformance.report import Finding, Outcome, joined
from solward.testing.conformance.watch import said
from solward.testing.conformance.wording import errors_finding
from solward.venue import Quote, QuoteRequest, SwapInstructions, SwapTransaction, VenueContext

_USDC = token_list("mainnet-beta").resolve("USDC", "mint")
_REQUEST = QuoteRequest(WRAPPED_SOL_MINT, _USDC, 10**9, 50)
_ADDRESS = "http://venue.invalid"
_BPS = 10_000

_FAILURES: tuple[bytes | int | type[httpx.HTTPError], ...] = (
    httpx.ConnectError,
    httpx.ReadTimeout,
    500,
    429,
    302,
    b"",
    b"\xff",
    b"null",
    b"[]",
    b"[" * 100_000,
    json.dumps({"outAmount": -1, "inAmount": "many", "error": ["odd"]}).encode(),
)


async def venue_findings(
    venue: LoadedVenue,
    http: httpx.AsyncClient | None,
    requests: Sequence[QuoteRequest],
    *,
    tiered: bool = False,
) -> list[Finding]:
    """Every check of a loaded venue, in a fixed order; `tiered` as of `skill_findings`."""
    errors: list[SolwardError] = []
    findings = await _checked(venue, http, requests, errors)
    return [*findings, errors_finding(errors)] if tiered else findings


async def _checked(
    venue: LoadedVenue,
    http: httpx.AsyncClient | None,
    requests: Sequence[QuoteRequest],
    errors: list[SolwardError],
) -> list[Finding]:
    failures = await _failures(venue, errors)
    if http is None or not requests:
        detail = "needs `http`, a client of a server that answers, and `requests`"
        skipped = [Finding(name, Outcome.SKIPPED, detail) for name in ("quotes", "swaps")]
        return [*skipped, failures]
    context = VenueContext(_streaming(http))
    bad_quotes: list[str] = []
    bad_swaps: list[str] = []
    for request in requests:
        sale = f"{request.amount} of {request.input_mint}"
        try:
            quote = await venue.quote(request, context)
        except Exception as error:
            bad_quotes.append(f"{sale}: {said(error)}")
            continue
        bad_quotes += [f"{sale}: {each}" for each in _of_quote(quote, request)]
        try:
            bad_swaps += [f"{sale}: {each}" for each in await _of_swap(venue, quote, context)]
        except Exception as error:
            bad_swaps.append(f"{sale}: {said(error)}")
    return [_finding("quotes", bad_quotes), _finding("swaps", bad_swaps), failures]


def _of_quote(quote: Quote, request: QuoteRequest) -> list[str]:
    if not isinstance(quote, Quote):
        return [f"answers a {type(quote).__name__}, not a Quote"]
    trouble = []
    asked = (request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    if asked != (quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps):
        trouble.append("the quote is for another swap than was asked for")
    if (quote.minimum_out + 1) * _BPS < quote.out_amount * (_BPS - request.slippage_bps):
        trouble.append("the minimum is less than the slippage allows")
    if not quote.price_impact.is_finite():
        trouble.append("the price impact is no number")
    return trouble


async def _of_swap(venue: LoadedVenue, quote: Quote, context: VenueContext) -> list[str]:
    taker, destination = (str(Keypair().pubkey()) for _ in range(2))
    trouble: list[str] = []
    if venue.gives_instructions:
        made = await venue.instructions(quote, taker, destination, context)
        trouble += _of_instructions(made, taker, destination)
        if not trouble:
            request = QuoteRequest(
                quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps
            )
            trouble += _of_quote(made.quote, request)
    if venue.gives_transactions:
        whole = await venue.swap(quote, taker, context)
        if not isinstance(whole, SwapTransaction) or not isinstance(whole.wire, bytes):
            trouble.append("venue_swap answers no SwapTransaction of bytes")
    return trouble


def _of_instructions(made: object, taker: str, destination: str) -> list[str]:
    if not isinstance(made, SwapInstructions) or not isinstance(made.swap, Instruction):
        return ["venue_instructions answers no SwapInstructions of an Instruction"]
    signers = {str(meta.pubkey) for meta in made.swap.accounts if meta.is_signer}
    written = {str(meta.pubkey) for meta in made.swap.accounts if meta.is_writable}
    trouble = []
    if signers != {taker}:
        trouble.append(f"signers are {sorted(signers)}; the only one is the taker")
    if destination not in written:
        trouble.append("the destination is not written, so nothing can arrive there")
    addresses = [
        *made.accounts,
        *made.tables,
        *(key for held in made.tables.values() for key in held),
    ]
    trouble += [f"{each!r} is no address" for each in addresses if not _is_address(each)]
    units = made.compute_units
    if units is not None and (type(units) is not int or not 0 < units <= 1_400_000):
        trouble.append("compute_units must be from 1 to 1,400,000, or None")
    return trouble


async def _failures(venue: LoadedVenue, errors: list[SolwardError]) -> Finding:
    """Servers that fail: each is an error the caller is told, whatever it answers."""
    trouble = []
    for failure in _FAILURES:
        transport = httpx.MockTransport(_failing(failure))
        async with httpx.AsyncClient(transport=transport, base_url=_ADDRESS) as http:
            try:
                quote = await venue.quote(_REQUEST, VenueContext(_streaming(http)))
                trouble += [f"{failure!r:.40}: {each}" for each in _of_quote(quote, _REQUEST)]
            except (InvalidRequest, LedgerUnavailable) as error:
                errors.append(error)
            except Exception as error:
                trouble.append(f"{failure!r:.40}: {said(error)}")
    return _finding("venue_failures", trouble)


class _Through(httpx.AsyncBaseTransport):
    """Requests by another client, whose answers are streams also where it makes them up."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        answer = await self._http.send(request)
        kept = [each for each in answer.headers.multi_items() if each[0] not in _OF_THE_BODY]
        return httpx.Response(answer.status_code, headers=kept, stream=_Body(answer.content))


class _Body(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


# What is no longer true of a body that was read.
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")


def _streaming(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """As `http`, for a plugin host's requests, which read an answer as it comes."""
    return httpx.AsyncClient(
        transport=_Through(http), base_url=http.base_url, headers=http.headers, timeout=http.timeout
    )


def _failing(failure: Any) -> Callable[[httpx.Request], httpx.Response]:
    def answer(_request: httpx.Request) -> httpx.Response:
        if isinstance(failure, bytes):
            return httpx.Response(200, content=failure)
        if isinstance(failure, int):
            return httpx.Response(failure, json={"error": "failing"})
        raise failure("failing")

    return answer


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and str(Pubkey.from_string(value)) == value
    except ValueError:
        return False


def _finding(check: str, trouble: Sequence[str]) -> Finding:
    if trouble:
        return Finding(check, Outcome.FAILED, joined(trouble))
    return Finding(check, Outcome.OK)
