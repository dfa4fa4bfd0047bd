"""The MCP tools `pay` and `quote_payment`: what they take, what a model is given, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.test_egress import Site, says
from tests.mcp.test_mcp_http import post
from tests.support.services import Api, serving_api

from solward_mcp.conversion import BadArgument
from solward_mcp.tools import MOST_TEXT, read_params

pytestmark = pytest.mark.samples(
    "test_what_is_free_is_answered_with_the_answer_and_no_payment",
    "test_arguments_that_do_not_fit_are_named",
)


@dataclass
class Shop:
    """A service, one wallet of it, and a site on this machine that it may pay.

    Attributes:
        url: of the site.
    """

    api: Api
    wallet: str
    site: Site
    url: str

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        given = {"wallet": self.wallet, "url": self.url, "max": "0.05 USDC"} | arguments
        answer = await post(self.api, "tools/call", {"name": tool, "arguments": given})
        return dict(answer.json["result"])


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    site = Site(says("42", "HTTP/1.1 200 OK\r\nContent-Type: text/plain"))
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    at = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with serving_api(tmp_path / "home", payments_private_sites=at) as api:
        yield Shop(api, await api.wallet(1), site, f"http://{at}/report")
    server.close()


async def test_what_is_free_is_answered_with_the_answer_and_no_payment(shop: Shop) -> None:
    done = await shop.call("pay", method="POST", headers={"X-Day": "1"}, body="what?")
    assert done["isError"] is False
    response = done["structuredContent"]["response"]
    assert (response["status"], response["body"], response["truncated"]) == (200, "42", False)
    assert response["headers"]["content-type"] == "text/plain"
    assert done["structuredContent"]["payment"] is None
    [request] = shop.site.requests
    assert request.line == "POST /report HTTP/1.1"
    assert (request.header("x-day"), request.body) == ("1", b"what?")


async def test_a_quote_asks_without_a_payment_and_says_what_it_would_cost(shop: Shop) -> None:
    quoted = await shop.call("quote_payment")
    assert quoted["isError"] is False
    told = quoted["structuredContent"]
    assert (told["dryRun"], told["allowed"], told["status"], told["offer"]) == (
        True,
        True,
        200,
        None,
    )


@pytest.mark.parametrize("tool", ["pay", "quote_payment"])
async def test_a_price_that_cannot_be_paid_is_an_error_with_the_reason(
    shop: Shop, tool: str
) -> None:
    shop.site.answer = says("pay me", "HTTP/1.1 402 Pay")
    refused = await shop.call(tool)
    assert refused["isError"] is True
    assert "no_offer" in refused["content"][0]["text"]
    assert len(shop.site.requests) == 1


async def test_a_model_gets_the_beginning_of_a_long_body_and_knows_it(shop: Shop) -> None:
    shop.site.answer = says("a" * (MOST_TEXT + 1))
    response = (await shop.call("pay"))["structuredContent"]["response"]
    assert (response["body"], response["truncated"]) == ("a" * MOST_TEXT, True)


async def test_a_model_gets_no_body_that_is_no_text(shop: Shop) -> None:
    shop.site.answer = says(b"\x89PNG\xff\xfe")
    response = (await shop.call("pay"))["structuredContent"]["response"]
    assert "bodyBase64" not in response
    assert (response["body"], response["note"]) == (None, "The body is not text.")


async def test_a_wallet_must_be_named_where_there_are_several(shop: Shop) -> None:
    await shop.api.wallet(0)
    refused = await shop.call("pay", wallet=None)
    assert refused["isError"] is True
    assert "wallet is required" in refused["content"][0]["text"]
    assert shop.site.requests == []


@pytest.mark.parametrize(
    ("fields", "says_"),
    [
        ({"max": "1 USDC"}, "url is required"),
        ({"url": "https://a.example"}, "max is required"),
        ({"url": "https://a.example", "max": 1}, "max must be a string"),
        ({"url": "https://a.example", "max": "1 USDC", "headers": ["a"]}, "headers must be"),
        ({"url": "https://a.example", "max": "1 USDC", "headers": {"a": 1}}, "headers must be"),
        ({"url": "https://a.example", "max": "1 USDC", "tip": "1"}, "tip is no argument"),
    ],
    ids=["no-url", "no-max", "number", "headers-list", "headers-number", "unknown"],
)
def test_arguments_that_do_not_fit_are_named(fields: dict[str, Any], says_: str) -> None:
    with pytest.raises(BadArgument, match=says_):
        read_params(fields)
