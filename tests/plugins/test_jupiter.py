from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.support.plugin_distributions import built_ins

from solward.errors import InvalidRequest, LedgerUnavailable
from solward.registry import load_registry
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.venue import Quote, QuoteRequest, VenueContext
from solward_plugins.venues import jupiter

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
WALLET = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
REQUEST = QuoteRequest(WRAPPED_SOL_MINT, USDC, 100_000_000, 50)
ANSWER: dict[str, Any] = {
    "inputMint": WRAPPED_SOL_MINT,
    "inAmount": "100000000",
    "outputMint": USDC,
    "outAmount": "16198753",
    "otherAmountThreshold": "16117760",
    "swapMode": "ExactIn",
    "slippageBps": 50,
    "priceImpactPct": "0.0001",
    "routePlan": [{"swapInfo": {"label": "Meteora DLMM"}, "percent": 100, "bps": 10_000}],
    "swapInstruction": {"programId": "", "accounts": [], "data": ""},
}
Handler = Callable[[httpx.Request], httpx.Response]


async def quote(handler: Handler) -> Quote:
    async with _client(handler) as http:
        return await jupiter.venue_quote(REQUEST, VenueContext(http))


def _client(handler: Handler) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.MockTransport(handler), base_url="https://venue.example/pro"
    )


def answers(body: Any, status: int = 200) -> Handler:
    if isinstance(body, bytes):
        return lambda _request: httpx.Response(status, content=body)
    return lambda _request: httpx.Response(status, content=json.dumps(body).encode())


async def test_a_quote_is_asked_for_by_jupiters_names_and_read_exactly() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=ANSWER)

    offer = await quote(handler)
    assert seen[0].method == "GET"
    # Below whatever path the configured address has.
    assert seen[0].url.path == "/pro/swap/v2/build"
    asked = dict(seen[0].url.params)
    # The API wants a taker for a price too: a key that was never used, as a swap's own is.
    assert asked.pop("taker") not in (WALLET, None)
    assert asked == {
        "inputMint": WRAPPED_SOL_MINT,
        "outputMint": USDC,
        "amount": "100000000",
        "slippageBps": "50",
    }
    assert offer == Quote(
        WRAPPED_SOL_MINT, USDC, 100_000_000, 16_198_753, 16_117_760, 50, Decimal("0.0001")
    )


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (400, {"error": "no route", "errorCode": "NONE"}, "The swap venue refused: no route"),
        (422, {"error": "Query parameter"}, "The swap venue refused: Query parameter"),
        (400, {"message": "odd"}, "The swap venue refused: 400"),
        (400, b"<html>", "The swap venue refused: 400"),
        (400, ["list"], "The swap venue refused: 400"),
        (400, {"error": "two\nlines\x1b[2J"}, "The swap venue refused: two lines [2J"),
        (400, {"error": "x" * 5_000}, "The swap venue refused: " + "x" * 300),
    ],
)
async def test_what_the_venue_refuses_is_the_callers_to_change(
    status: int, body: Any, text: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await quote(answers(body, status))
    assert str(caught.value) == text


@pytest.mark.parametrize("status", [204, 302, 401, 403, 404, 429, 500, 502, 503, 504])
async def test_a_venue_that_does_not_serve_is_unavailable(status: int) -> None:
    with pytest.raises(LedgerUnavailable) as caught:
        await quote(answers({"error": "secret of the operator"}, status))
    assert str(caught.value) == f"The swap venue answered with status {status}"


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError]
)
async def test_a_venue_that_is_away_is_unavailable(error: type[httpx.TransportError]) -> None:
    def handler(_request: httpx.Request) -> httpx.Response:
        raise error("https://venue.example/?key=secret")

    with pytest.raises(LedgerUnavailable) as caught:
        await quote(handler)
    # The address may carry a key, so its name stays out of the text.
    assert str(caught.value) == f"The swap venue did not answer ({error.__name__})"


UNEXPECTED = "The swap venue's answer has an unexpected shape"


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"\xff", b"[" * 100_000, b"null", [ANSWER], "text", {}]
)
async def test_an_answer_of_another_shape_is_not_guessed_at(body: Any) -> None:
    with pytest.raises(LedgerUnavailable, match=UNEXPECTED):
        await quote(answers(body))


@pytest.mark.parametrize("field", ["inAmount", "outAmount", "otherAmountThreshold", "slippageBps"])
@pytest.mark.parametrize(
    "value", [None, "", "-1", "+1", "1_0", " 1", "1.0", "1e3", "٣", "9" * 21, 1.5, True, [], {}]
)
async def test_an_amount_that_is_not_plain_digits_is_refused(field: str, value: Any) -> None:
    with pytest.raises(LedgerUnavailable, match=UNEXPECTED):
        await quote(answers({**ANSWER, field: value}))


async def test_amounts_may_be_bare_integers() -> None:
    offer = await quote(answers({**ANSWER, "outAmount": 16_198_753, "slippageBps": "50"}))
    assert (offer.out_amount, offer.slippage_bps) == (16_198_753, 50)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-sNaN", "a lot", [], {"a": 1}])
async def test_a_price_impact_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(LedgerUnavailable, match=UNEXPECTED):
        await quote(answers({**ANSWER, "priceImpactPct": value}))


@pytest.mark.parametrize(
    ("value", "impact"), [(None, "0"), ("", "0"), ("0", "0"), (0.25, "0.25"), ("-0.001", "-0.001")]
)
async def test_a_price_impact_is_a_fraction_or_absent(value: Any, impact: str) -> None:
    assert (await quote(answers({**ANSWER, "priceImpactPct": value}))).price_impact == Decimal(
        impact
    )


@pytest.mark.parametrize("missing", ["inputMint", "outputMint", "inAmount", "outAmount"])
async def test_a_quote_without_what_it_is_about_is_refused(missing: str) -> None:
    body = {name: value for name, value in ANSWER.items() if name != missing}
    with pytest.raises(LedgerUnavailable, match=UNEXPECTED):
        await quote(answers(body))


async def test_jupiter_is_found_by_its_entry_point_and_gives_instructions_alone() -> None:
    registry = load_registry(entry_points=built_ins("jupiter"))
    assert registry.problems == ()
    venue = registry.venues["jupiter"]
    assert (venue.gives_instructions, venue.gives_transactions) == (True, False)
