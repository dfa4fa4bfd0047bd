"""The kit's checks of venues: the built-in one passes on the localnet, broken ones are told why."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import httpx
import pytest
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from tests.swap_api import venue_app
from tests.testing import bad_plugins as bad
from tests.testing.test_bad_plugins_are_found import IN_HOST, IN_PROCESS, given

from solward import Quote, QuoteRequest, SwapInstructions, SwapTransaction, VenueSpec, hookimpl
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.testing.conformance import Outcome, Report, check_venue
from solward_localnet.market import POOLS, genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_plugins.venues import jupiter

USDC, BONK = (str(pool.mint) for pool in POOLS)
REQUESTS = [
    QuoteRequest(WRAPPED_SOL_MINT, USDC, 10**9, 50),
    QuoteRequest(USDC, WRAPPED_SOL_MINT, 10**6, 0),
    QuoteRequest(USDC, BONK, 10**6, 1_000),
]

Change = Callable[[Any], Any]


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    node = await Localnet.open(None, LocalnetOptions(ticker=False, genesis=genesis_accounts))
    try:
        transport = httpx.ASGITransport(venue_app(node.call))
        async with httpx.AsyncClient(transport=transport, base_url="http://localnet") as client:
            yield client
    finally:
        await node.close()


async def test_the_built_in_venue_conforms(http: httpx.AsyncClient) -> None:
    report = await check_venue("jupiter", http=http, requests=REQUESTS)
    assert {each.outcome for each in report.findings} == {Outcome.OK}, str(report)


def same(value: Any) -> Any:
    return value


@dataclass
class Broken:
    """The built-in venue, but for what a test changes."""

    quoted: Change = same
    made: Change = same

    def module(self) -> ModuleType:
        plugin = ModuleType("broken_venue")
        quoted, made = self.quoted, self.made

        @hookimpl
        def venue_spec() -> VenueSpec:
            return VenueSpec("broken_venue")

        @hookimpl
        async def venue_quote(request: QuoteRequest, context: Any) -> Any:
            return quoted(await jupiter.venue_quote(request, context))

        @hookimpl
        async def venue_instructions(
            quote: Quote, taker: str, destination: str, max_accounts: int | None, context: Any
        ) -> Any:
            return made(
                await jupiter.venue_instructions(quote, taker, destination, max_accounts, context)
            )

        for hook in (venue_spec, venue_quote, venue_instructions):
            setattr(plugin, hook.__name__, hook)
        return plugin

    async def report(self, http: httpx.AsyncClient) -> Report:
        return await check_venue(self.module(), http=http, requests=REQUESTS[:1], in_process=True)


def swapping(change: Callable[[list[AccountMeta]], list[AccountMeta]]) -> Change:
    def changed(made: SwapInstructions) -> SwapInstructions:
        accounts = change(list(made.swap.accounts))
        swap = Instruction(made.swap.program_id, made.swap.data, accounts)
        return replace(made, swap=swap)

    return changed


def unsigned(accounts: list[AccountMeta]) -> list[AccountMeta]:
    return [AccountMeta(each.pubkey, False, each.is_writable) for each in accounts]


def signed_by_another(accounts: list[AccountMeta]) -> list[AccountMeta]:
    return [*accounts, AccountMeta(Pubkey.default(), True, False)]


def readonly(accounts: list[AccountMeta]) -> list[AccountMeta]:
    return [AccountMeta(each.pubkey, each.is_signer, False) for each in accounts]


@pytest.mark.more
@pytest.mark.parametrize(
    ("broken", "check", "text"),
    [
        (Broken(quoted=lambda _quote: None), "quotes", "answers a NoneType, not a Quote"),
        (
            Broken(quoted=lambda quote: replace(quote, in_amount=1)),
            "quotes",
            "the quote is for another swap",
        ),
        (
            Broken(quoted=lambda quote: replace(quote, minimum_out=1)),
            "quotes",
            "the minimum is less than the slippage allows",
        ),
        (Broken(made=lambda _made: None), "swaps", "must return SwapInstructions"),
        (Broken(made=swapping(unsigned)), "swaps", "only the taker may sign"),
        (Broken(made=swapping(signed_by_another)), "swaps", "only the taker may sign"),
        (Broken(made=swapping(readonly)), "swaps", "the destination is not writable"),
        (
            Broken(made=lambda made: replace(made, accounts=("USDC",))),
            "swaps",
            "'USDC' is no address",
        ),
        (
            Broken(made=lambda made: replace(made, tables={USDC: ("nobody",)})),
            "swaps",
            "'nobody' is no address",
        ),
        (
            Broken(made=lambda made: replace(made, quote=replace(made.quote, minimum_out=1))),
            "swaps",
            "the minimum is less than the slippage allows",
        ),
        (Broken(made=lambda made: replace(made, compute_units=0)), "swaps", "compute_units"),
    ],
)
async def test_a_venue_that_breaks_its_contract_is_told_how(
    http: httpx.AsyncClient, broken: Broken, check: str, text: str
) -> None:
    found = (await broken.report(http)).finding(check)
    assert found.outcome is Outcome.FAILED
    assert text in found.detail


def of_nothing(made: SwapInstructions) -> SwapInstructions:
    """A swap of a million times less, with which no minimum arrives."""
    data = bytearray(made.swap.data)
    data[1:9] = (1_000).to_bytes(8, "little")
    data[9:17] = bytes(8)
    return replace(made, swap=Instruction(made.swap.program_id, bytes(data), made.swap.accounts))


async def test_a_swap_that_looks_well_and_gives_too_little_is_found_by_selling(
    http: httpx.AsyncClient,
) -> None:
    report = await Broken(made=of_nothing).report(http)
    assert report.failed == ("executed",)
    assert "would fail" in report.finding("executed").detail


@pytest.mark.more
async def test_nothing_is_sold_where_an_answer_is_wrong_or_no_wallet_has_it(
    http: httpx.AsyncClient,
) -> None:
    report = await Broken(quoted=lambda quote: replace(quote, in_amount=1)).report(http)
    assert report.finding("executed").outcome is Outcome.SKIPPED
    foreign = str(Pubkey.new_unique())
    requests = [replace(REQUESTS[0], input_mint=foreign)]
    swapped = Broken(quoted=lambda quote: replace(quote, input_mint=foreign))

    @hookimpl
    async def venue_quote(request: QuoteRequest, context: Any) -> Any:
        real = await jupiter.venue_quote(REQUESTS[0], context)
        return replace(real, input_mint=request.input_mint)

    @hookimpl
    async def venue_instructions(
        quote: Quote, taker: str, destination: str, max_accounts: int | None, context: Any
    ) -> Any:
        own = replace(quote, input_mint=REQUESTS[0].input_mint)
        made = await jupiter.venue_instructions(own, taker, destination, max_accounts, context)
        return replace(made, quote=quote)

    module = swapped.module()
    module.venue_quote, module.venue_instructions = venue_quote, venue_instructions  # type: ignore[attr-defined]
    report = await check_venue(module, http=http, requests=requests, in_process=True)
    assert report.finding("executed").outcome is Outcome.SKIPPED
    assert foreign in report.finding("executed").detail


@pytest.mark.more
@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
@pytest.mark.parametrize(
    ("venue", "check", "text"),
    [
        # It conforms but for its swap, which is none.
        (bad.Venue, "executed", ""),
        (bad.FragileVenue, "venue_failures", "ConnectError"),
        (bad.StingyVenue, "quotes", "the minimum is less than the slippage allows"),
        (bad.QuotelessVenue, "quotes", ""),
    ],
)
async def test_a_venue_has_the_same_verdict_in_a_host_and_in_process(
    mode: str, venue: type, check: str | None, text: str
) -> None:
    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"out": 100_000})

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(transport=transport, base_url="http://venue.invalid") as http:
        report = await check_venue(**given(mode, venue), http=http, requests=REQUESTS[:1])
    assert (check in report.failed) if check else report.ok, str(report)
    if check is not None:
        assert text in report.finding(check).detail


async def test_a_venue_that_lets_its_servers_failure_through_is_told_so() -> None:
    plugin = ModuleType("fragile_venue")

    @hookimpl
    def venue_spec() -> VenueSpec:
        return VenueSpec("fragile_venue")

    @hookimpl
    async def venue_quote(request: QuoteRequest, context: Any) -> Quote:
        body = (await context.http.get("/price")).json()
        return Quote(**body)

    @hookimpl
    async def venue_swap(quote: Quote, wallet: str, context: Any) -> SwapTransaction:
        return SwapTransaction(b"", 1)

    for hook in (venue_spec, venue_quote, venue_swap):
        setattr(plugin, hook.__name__, hook)
    report = await check_venue(plugin, in_process=True)
    assert report.failed == ("venue_failures",)
    assert "ConnectError" in report.finding("venue_failures").detail
    assert report.skipped == ("host", "quotes", "swaps", "executed", "manifest", "wheels")
