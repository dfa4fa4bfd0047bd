"""Checks of a swap venue: its quotes, the accounts in its swap instructions, real swaps on a
ledger, and its behaviour when servers fail."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from solders.account import Account
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from solward.operations.venues import Venue
from solward.plugins.loaded import LoadedVenue
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.solana.tokens import read_mint
from solward.support.base58 import is_address
from solward.testing.canaries import plugin_secret
from solward.testing.conformance.report import GIVEN_IN, Finding, Outcome, errors_finding, finding
from solward.testing.conformance.watch import Watch, error_text
from solward.testing.stand import Stand, TestWallet, open_stand
from solward.types.errors import InvalidRequest, LedgerUnavailable, SkillError, SolwardError
from solward.types.ledger import ReadOnlyLedger
from solward.types.manifest import Terms
from solward.types.money import from_units
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.venue import (
    FUNDS_FIRST,
    Quote,
    QuoteRequest,
    SwapInstructions,
    SwapTransaction,
    VenueContext,
)
from solward.vault.money.request import ADMIN
from solward_localnet.market import POOLS

_USDC = token_list("mainnet-beta").resolve("USDC", "mint")
_REQUEST = QuoteRequest(WRAPPED_SOL_MINT, _USDC, 10**9, 50)
_ADDRESS = "http://venue.invalid"
_BPS = 10_000
_SOL = 1_000_000_000

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


@dataclass(frozen=True, slots=True)
class VenueCases:
    """The cases for a venue.

    Attributes:
        http: a client of a server that speaks the venue's protocol; None if it needs none.
        requests: swaps that the venue can make.
        pools: the pools that the operator would configure in the venue's `pools_env`.
        genesis: accounts of the kit's ledger in addition to the demo market's, such as the venue's
            program and pools. Without it and without pools, the ledger is opened only to sell, and
            no quote can read it.
    """

    http: httpx.AsyncClient | None = None
    requests: Sequence[QuoteRequest] = ()
    pools: Sequence[str] = ()
    genesis: Mapping[Pubkey, Account] | None = None


_NO_CASES = VenueCases()


async def venue_findings(
    venue: LoadedVenue, _watch: Watch, *, cases: VenueCases = _NO_CASES, tiered: bool = False
) -> list[Finding]:
    """Return the findings of all checks of a loaded venue, in a fixed order."""
    errors: list[SolwardError] = []
    failures = await _check_failures(venue, cases.pools, errors)
    if not cases.requests or (cases.http is None and not cases.pools):
        detail = (
            "needs `requests`, and `pools` or `http` (a client of a venue's server); a project"
            f" gives requests and pools in {GIVEN_IN}"
        )
        findings = [Finding(name, Outcome.SKIPPED, detail) for name in _OF_REQUESTS]
    else:
        async with contextlib.AsyncExitStack() as stack:
            findings = await _request_findings(venue, cases, stack)
    findings.append(failures)
    return [*findings, errors_finding(errors)] if tiered else findings


async def _request_findings(
    venue: LoadedVenue, cases: VenueCases, stack: contextlib.AsyncExitStack
) -> list[Finding]:
    """Return the findings of the checks that need swap requests."""
    http = cases.http
    if http is None:
        http = await stack.enter_async_context(httpx.AsyncClient())
    context = VenueContext(
        _streaming(http),
        {env: plugin_secret(env) for env in Terms.from_spec(venue.spec).secrets()},
        pools=tuple(cases.pools),
    )
    stand: Stand | None = None
    if cases.pools or cases.genesis is not None:
        stand, context = await _open_ledger(cases, context, stack)
    findings = await _check_requests(venue, cases.requests, context)
    if any(each.outcome is Outcome.FAILED for each in findings):
        detail = "its quotes or swaps are wrong, so no swap was executed"
        return [*findings, Finding("executed", Outcome.SKIPPED, detail)]
    if stand is None:
        stand, context = await _open_ledger(cases, context, stack)
    return [*findings, await _check_execution(venue, cases.requests, context, stand)]


async def _open_ledger(
    cases: VenueCases, context: VenueContext, stack: contextlib.AsyncExitStack
) -> tuple[Stand, VenueContext]:
    home = stack.enter_context(tempfile.TemporaryDirectory(prefix="solward-check-"))
    stand = await stack.enter_async_context(open_stand(Path(home), genesis=cases.genesis or {}))
    ledger = ReadOnlyLedger(stand.service.ledger, lambda: None)
    return stand, replace(context, ledger=ledger)


# The checks that need requests; the last one sells.
_OF_REQUESTS = ("quotes", "swaps", "executed")


async def _check_requests(
    venue: LoadedVenue, requests: Sequence[QuoteRequest], context: VenueContext
) -> list[Finding]:
    bad_quotes: list[str] = []
    bad_swaps: list[str] = []
    for request in requests:
        sale = _sale_text(request)
        try:
            quote = await venue.quote(request, context)
        except Exception as error:
            bad_quotes.append(f"{sale}: {error_text(error)}")
            continue
        bad_quotes += [f"{sale}: {each}" for each in _quote_faults(quote, request)]
        try:
            bad_swaps += [f"{sale}: {each}" for each in await _swap_faults(venue, quote, context)]
        except Exception as error:
            bad_swaps.append(f"{sale}: {error_text(error)}")
    return [finding("quotes", bad_quotes), finding("swaps", bad_swaps)]


async def _check_execution(
    venue: LoadedVenue, requests: Sequence[QuoteRequest], context: VenueContext, stand: Stand
) -> Finding:
    """Execute each requested swap from a new wallet, through the engine, on the kit's ledger.

    Tokens of the demo market are bought there first. The engine blocks any sale that brings less
    than the quoted minimum.
    """
    trouble: list[str] = []
    own = Venue(venue, context)
    market = stand.service.operations.venues.loaded
    sellable = {WRAPPED_SOL_MINT, *(str(pool.mint) for pool in POOLS)}
    unknown = {each.input_mint for each in requests} - sellable
    if unknown:
        names = ", ".join(sorted(unknown))
        detail = f"no wallet of the kit has {names}: requests sell SOL, or the demo market's tokens"
        return Finding("executed", Outcome.SKIPPED, detail)
    for at, request in enumerate(requests):
        wallet = await stand.wallet(f"swap-{at}")
        try:
            if request.input_mint != WRAPPED_SOL_MINT:
                stand.service.operations.use_venues(market)
                await _make_swap(
                    stand, wallet, QuoteRequest(WRAPPED_SOL_MINT, request.input_mint, _SOL, 50)
                )
            stand.service.operations.use_venues([own])
            record = await _make_swap(stand, wallet, request)
        except Exception as error:
            trouble.append(
                f"{_sale_text(request)}: the swap did not land with the quoted minimum:"
                f" {error_text(error)}"
            )
        else:
            if record.status is not TransactionStatus.CONFIRMED:
                trouble.append(f"{_sale_text(request)}: the transaction is {record.status}")
            if record.details.get("venue") != venue.spec.name:
                trouble.append(f"{_sale_text(request)}: the record names another venue")
        finally:
            stand.service.operations.use_venues(market)
    return finding("executed", trouble)


async def _make_swap(stand: Stand, wallet: TestWallet, request: QuoteRequest) -> TransactionRecord:
    decimals = 9
    if request.input_mint != WRAPPED_SOL_MINT:
        decimals = (await read_mint(stand.service.ledger, request.input_mint)).decimals
    params = {
        "inputToken": request.input_mint,
        "outputToken": request.output_mint,
        "amount": from_units(request.amount, decimals),
        "slippageBps": request.slippage_bps,
    }
    return await stand.service.operations.perform("swap", wallet.id, ADMIN, params)


def _sale_text(request: QuoteRequest) -> str:
    return f"{request.amount} of {request.input_mint}"


def _quote_faults(quote: Quote, request: QuoteRequest) -> list[str]:
    if not isinstance(quote, Quote):
        return [f"answers a {type(quote).__name__}, not a Quote"]
    trouble = []
    asked = (request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    if asked != (quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps):
        trouble.append("the quote is for another swap than the request")
    if (quote.minimum_out + 1) * _BPS < quote.out_amount * (_BPS - request.slippage_bps):
        trouble.append("the minimum is less than the slippage allows")
    if not quote.price_impact.is_finite():
        trouble.append("the price impact is no number")
    return trouble


async def _swap_faults(venue: LoadedVenue, quote: Quote, context: VenueContext) -> list[str]:
    taker, destination = (str(Keypair().pubkey()) for _ in range(2))
    trouble: list[str] = []
    gave = False
    if venue.gives_instructions:
        try:
            made = await venue.instructions(quote, taker, destination, context)
            gave = True
            trouble += _instruction_faults(made, taker, destination)
            if not trouble:
                request = QuoteRequest(
                    quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps
                )
                trouble += _quote_faults(made.quote, request)
        except SkillError as error:
            if error.code != FUNDS_FIRST or not venue.gives_transactions:
                raise
    if venue.gives_transactions:
        try:
            whole = await venue.swap(quote, taker, context)
            if not isinstance(whole, SwapTransaction) or not isinstance(whole.wire, bytes):
                trouble.append("venue_swap must return a SwapTransaction whose wire is bytes")
        except InvalidRequest:
            # A venue may refuse a whole transaction if it gave an instruction.
            if not gave:
                raise
    return trouble


def _instruction_faults(made: object, taker: str, destination: str) -> list[str]:
    if not isinstance(made, SwapInstructions) or not isinstance(made.swap, Instruction):
        return ["venue_instructions must return SwapInstructions whose swap is an Instruction"]
    signers = {str(meta.pubkey) for meta in made.swap.accounts if meta.is_signer}
    written = {str(meta.pubkey) for meta in made.swap.accounts if meta.is_writable}
    trouble = []
    if signers != {taker}:
        trouble.append(f"the signers are {sorted(signers)}; only the taker may sign")
    if destination not in written:
        trouble.append("the destination is not writable, so nothing can arrive there")
    addresses = [
        *made.accounts,
        *made.tables,
        *(key for held in made.tables.values() for key in held),
    ]
    trouble += [f"{each!r} is no address" for each in addresses if not is_address(each)]
    units = made.compute_units
    if units is not None and (type(units) is not int or not 0 < units <= 1_400_000):
        trouble.append("compute_units must be from 1 to 1,400,000, or None")
    return trouble


async def _check_failures(
    venue: LoadedVenue, pools: Sequence[str], errors: list[SolwardError]
) -> Finding:
    """Check that failing servers and a silent ledger give errors that callers may see."""
    trouble = []
    for failure in _FAILURES:
        transport = httpx.MockTransport(_failing_handler(failure))
        async with httpx.AsyncClient(transport=transport, base_url=_ADDRESS) as http:
            try:
                context = VenueContext(_streaming(http), pools=tuple(pools))
                quote = await venue.quote(_REQUEST, context)
                trouble += [f"{failure!r:.40}: {each}" for each in _quote_faults(quote, _REQUEST)]
            except (InvalidRequest, LedgerUnavailable) as error:
                errors.append(error)
            except Exception as error:
                trouble.append(f"{failure!r:.40}: {error_text(error)}")
    return finding("venue_failures", trouble)


class _ForwardingTransport(httpx.AsyncBaseTransport):
    """A transport that sends requests through another client and answers with streams."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        answer = await self._http.send(request)
        kept = [each for each in answer.headers.multi_items() if each[0] not in _OF_THE_BODY]
        return httpx.Response(
            answer.status_code, headers=kept, stream=httpx.ByteStream(answer.content)
        )


# Headers that are no longer true once the body was read.
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")


def _streaming(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a client that sends through `http` and streams the answers, as plugin hosts need."""
    return httpx.AsyncClient(
        transport=_ForwardingTransport(http),
        base_url=http.base_url,
        headers=http.headers,
        timeout=http.timeout,
    )


def _failing_handler(failure: Any) -> Callable[[httpx.Request], httpx.Response]:
    def answer(_request: httpx.Request) -> httpx.Response:
        if isinstance(failure, bytes):
            return httpx.Response(200, content=failure)
        if isinstance(failure, int):
            return httpx.Response(failure, json={"error": "failing"})
        raise failure("failing")

    return answer
