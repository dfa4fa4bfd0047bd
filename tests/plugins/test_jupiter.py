from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.support.plugins import built_ins

from solward.plugins import load_registry
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import InvalidRequest, LedgerUnavailable
from solward.types.venue import Quote, QuoteRequest, VenueContext
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


@pytest.mark.parametrize("status", [204, 302, 500, 502, 503, 504])
async def test_a_venue_that_does_not_serve_is_unavailable(status: int) -> None:
    with pytest.raises(LedgerUnavailable) as caught:
        await quote(answers({"error": "secret of the operator"}, status))
    assert str(caught.value) == f"The swap venue answered with status {status}"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, "The swap venue does not accept the key in JUPITER_API_KEY"),
        (403, "The swap venue forbids the request: the key in JUPITER_API_KEY lacks"),
        (404, "The swap venue has no such call: check JUPITER_API_URL and JUPITER_API"),
    ],
)
async def test_what_the_operator_can_set_right_is_named(status: int, text: str) -> None:
    with pytest.raises(LedgerUnavailable) as caught:
        await quote(answers({"message": "secret of the operator"}, status))
    assert str(caught.value).startswith(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("COULD_NOT_FIND_ANY_ROUTE", "it has no route between these tokens for this amount"),
        ("NO_ROUTES_FOUND", "it has no route between these tokens for this amount"),
        ("ROUTE_PLAN_DOES_NOT_CONSUME_ALL_THE_AMOUNT", "its markets cannot trade all of this"),
        ("MARKET_NOT_FOUND", "a market of the route does not exist any more"),
        ("TOKEN_NOT_TRADABLE", "one of the tokens is not traded there"),
        ("NOT_SUPPORTED", "it does not support this swap"),
        ("CIRCULAR_ARBITRAGE_IS_DISABLED", "input and output are the same token"),
        ("CANNOT_COMPUTE_OTHER_AMOUNT_THRESHOLD", "this amount and slippage give no minimum"),
        ("MAX_ACCOUNT_GREATER_THAN_MAX", "the route names too many accounts"),
        ("FAILED_TO_GET_SWAP_AND_ACCOUNT_METAS", "it could not make the swap of its quote"),
    ],
)
async def test_a_documented_code_is_told_in_words_beside_the_venues_own(
    code: str, text: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await quote(answers({"error": "account not found: 9", "errorCode": code}, 400))
    assert str(caught.value).startswith(f"The swap venue refused: {text}")
    assert str(caught.value).endswith("(account not found: 9)")


class Limiter:
    """Answers 429 until the time it says has passed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], free_at: float):
        self.now, self.slept, self.requests = 1_000_000.0, [], 0
        self.headers, self.free_at = headers, 1_000_000.0 + free_at

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.now += seconds

        monkeypatch.setattr(jupiter.asyncio, "sleep", sleep)
        monkeypatch.setattr(jupiter.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(jupiter.time, "time", lambda: self.now)

    def __call__(self, _request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.now >= self.free_at:
            return httpx.Response(200, json=ANSWER)
        return httpx.Response(429, headers=self.headers, json={"message": "Too many requests"})


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"retry-after": "3"}, [3.0]),
        ({"x-ratelimit-reset": "1000003"}, [3.0]),
        # The API's own clock counts where it is said: this machine's is two seconds ahead.
        (
            {"x-ratelimit-reset": "1000003", "date": "Mon, 12 Jan 1970 13:46:38 GMT"},
            [5.0],
        ),
        ({"x-ratelimit-reset": "1000001"}, [1.0, 0.05, 0.05]),
        ({}, [1.0]),
    ],
)
async def test_a_request_beyond_the_rate_limit_is_made_again_when_the_answer_says(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], waits: list[float]
) -> None:
    venue = Limiter(monkeypatch, headers, sum(waits))
    assert (await quote(venue)).out_amount == 16_198_753
    assert venue.slept == waits
    assert venue.requests == len(waits) + 1


@pytest.mark.parametrize(
    ("headers", "requests", "again"),
    [
        ({"retry-after": "11"}, 1, "; it takes requests again in 11 s"),
        ({"retry-after": "6"}, 2, "; it takes requests again in 6 s"),
        ({}, 2, ""),
        ({"retry-after": "soon", "x-ratelimit-reset": "-1"}, 2, ""),
    ],
)
async def test_a_limit_that_lasts_longer_than_a_caller_waits_is_told(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], requests: int, again: str
) -> None:
    venue = Limiter(monkeypatch, headers, 1_000)
    with pytest.raises(LedgerUnavailable) as caught:
        await quote(venue)
    text = f"The swap venue's rate limit is reached{again}. JUPITER_API_KEY of a larger plan raises"
    assert str(caught.value).startswith(text)
    assert venue.requests == requests
    assert sum(venue.slept) <= jupiter.PATIENCE_S


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


async def test_jupiter_is_found_by_its_entry_point_and_gives_both_forms() -> None:
    registry = load_registry(entry_points=built_ins("jupiter"))
    assert registry.problems == ()
    venue = registry.venues["jupiter"]
    assert (venue.gives_instructions, venue.gives_transactions) == (True, True)
