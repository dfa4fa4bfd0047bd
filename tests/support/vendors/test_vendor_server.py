"""The loopback vendor server captures, refuses, follows a script and keeps count."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.support.vendors.asking import (
    SCHEMA,
    VENDORS,
    address_of,
    ask,
    body_of,
    client,
    headers_of,
    read,
)
from tests.support.vendors.server import vendor_server
from tests.support.vendors.wire import Answer, CapturedRequest, Vendor

every_vendor = pytest.mark.parametrize("vendor", VENDORS)


async def test_requests_are_captured_alike_whatever_the_vendor() -> None:
    async with vendor_server() as server:
        for vendor in VENDORS:
            await ask(server.base_urls, vendor, "key~text", stream=True)
    assert [request.vendor for request in server.requests] == list(VENDORS)
    for request in server.requests:
        assert request.model == "m-1"
        assert request.key == "key~text"
        assert request.stream
        assert request.system == "be\nbrief"
        assert request.user == "first\nsecond"
        assert request.turns[1] == ("assistant", "between")
        assert request.tool_names == ("wait",)
        assert request.tools[0].description == "Do nothing."
        assert request.tools[0].parameters == SCHEMA
        assert request.body == body_of(request.vendor, True)
        assert all(name == name.lower() for name in request.headers)
    assert [request.path for request in server.requests] == [
        "/v1/chat/completions",
        "/xai/v1/chat/completions",
        "/v1/messages",
        "/models/m-1:streamGenerateContent",
    ]


@pytest.mark.parametrize(
    ("vendor", "header", "without", "status", "expected"),
    [
        ("openai", "Authorization", None, 401, "Incorrect API key"),
        ("grok", "Authorization", None, 401, "Incorrect API key"),
        ("anthropic", "x-api-key", None, 401, "invalid x-api-key"),
        ("gemini", "x-goog-api-key", None, 401, "API key not valid"),
        ("anthropic", "anthropic-version", None, 400, "anthropic-version: header is required"),
        ("anthropic", None, "max_tokens", 400, "max_tokens: Field required"),
        ("anthropic", None, "messages", 400, "messages: Field required"),
        ("openai", None, "model", 400, "you must provide a model parameter"),
        ("grok", None, "messages", 400, "Missing required parameter: 'messages'."),
        ("gemini", None, "contents", 400, "contents is not specified"),
    ],
)
async def test_what_a_vendor_would_refuse_is_refused(
    vendor: Vendor, header: str | None, without: str | None, status: int, expected: str
) -> None:
    headers = {k: v for k, v in headers_of(vendor, "key~text").items() if k != header}
    body = {name: value for name, value in body_of(vendor, False).items() if name != without}
    async with vendor_server() as server, client() as http:
        address = address_of(vendor, server.base_urls, False)
        response = await http.post(address, headers=headers, json=body)
    assert response.status_code == status
    assert expected in response.text


@pytest.mark.parametrize("body", ["not JSON", "[1]", '{"messages": 5}'])
async def test_a_body_nobody_can_read_is_a_400(body: str) -> None:
    async with vendor_server() as server, client() as http:
        address = address_of("openai", server.base_urls, False)
        response = await http.post(address, headers=headers_of("openai", "k"), content=body)
    assert response.status_code == 400
    assert not server.requests


async def test_a_path_of_no_vendor_is_a_404_and_remembered() -> None:
    async with vendor_server() as server, client() as http:
        for path in ("/v1/responses", "/models/m-1:countTokens"):
            assert (await http.post(server.url + path, json={})).status_code == 404
        assert (await http.get(server.url + "/v1/models")).status_code == 404
    assert server.strays == ["/v1/responses", "/models/m-1:countTokens", "/v1/models"]


@every_vendor
async def test_a_script_decides_per_request_and_may_leave_it_to_the_key(vendor: Vendor) -> None:
    async def script(request: CapturedRequest) -> Answer | None:
        await asyncio.sleep(0)
        return None if request.key == "key~401" else Answer(text=f"heard {request.user[-6:]}")

    async with vendor_server(script) as server:
        heard = await ask(server.base_urls, vendor, "key")
        left = await ask(server.base_urls, vendor, "key~401")
    assert read(vendor, heard, False) == ("heard second", [])
    assert left.status_code == 401


@every_vendor
async def test_a_script_may_be_as_hostile_as_it_likes(vendor: Vendor) -> None:
    def script(request: CapturedRequest) -> Answer:
        return Answer(
            status=418, message=f"your key is {request.key}", headers={"X-Seen": request.key}
        )

    async with vendor_server(script) as server:
        response = await ask(server.base_urls, vendor, "canary")
    assert response.status_code == 418
    assert "your key is canary" in response.text
    assert response.headers["x-seen"] == "canary"


@every_vendor
async def test_what_a_script_raises_fails_its_test(vendor: Vendor) -> None:
    def script(request: CapturedRequest) -> Answer:
        raise AssertionError(f"no {request.vendor}")

    with pytest.raises(AssertionError, match=f"no {vendor}"):
        async with vendor_server(script) as server:
            assert (await ask(server.base_urls, vendor)).status_code == 500


async def test_latency_comes_before_the_answer_and_requests_overlap() -> None:
    async with vendor_server(latency_s=0.2) as server:
        began = time.monotonic()
        await ask(server.base_urls, "openai")
        await ask(server.base_urls, "openai")
        two = time.monotonic() - began
        began = time.monotonic()
        await asyncio.gather(*(ask(server.base_urls, vendor) for vendor in VENDORS * 3))
        twelve = time.monotonic() - began
    assert two >= 2 * 0.2
    # One after the other they would take as long as six times two, on a busy machine too.
    assert 0.2 <= twelve < 5 * two


async def test_it_keeps_as_many_requests_as_told_and_counts_all() -> None:
    async with vendor_server(keep=2) as server:
        for vendor in VENDORS:
            await ask(server.base_urls, vendor)
    assert [request.vendor for request in server.requests] == ["anthropic", "gemini"]
    assert server.served == dict.fromkeys(VENDORS, 1)


@pytest.mark.parametrize("fault", [None, "drip", "reset"])
async def test_a_client_that_left_before_its_answer_is_no_fault_of_the_server(
    caplog: pytest.LogCaptureFixture, fault: str | None
) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def script(_request: CapturedRequest) -> Answer:
        asked.set()
        await left.wait()
        return Answer(fault=fault) if fault else Answer()

    async with vendor_server(script) as server:
        asking = asyncio.create_task(ask(server.base_urls, "openai", "key~text", stream=True))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        # The end of the connection is read first, by the loop's next turns.
        for _ in range(100):
            await asyncio.sleep(0)
        left.set()
    assert [each.getMessage() for each in caplog.records if each.name.startswith("aiohttp")] == []


@pytest.mark.parametrize("leaves", ["before its body has come", "before the answer"])
async def test_a_client_that_is_killed_is_no_error_of_the_server(
    leaves: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def script(_request: CapturedRequest) -> Answer:
        asked.set()
        await asyncio.sleep(0)
        return Answer(text="late " * 100_000)

    body = b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}'
    async with vendor_server(script) as server:
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        length = len(body) + (9 if leaves == "before its body has come" else 0)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
        writer.write(head.encode() + b"Authorization: Bearer key\r\n\r\n" + body)
        await writer.drain()
        if length == len(body):
            await asked.wait()
        writer.transport.abort()
        # Answered after it, so what the first one left has been handled.
        async with client() as http:
            assert (await http.get(f"{server.url}/stats")).status_code == 200
    assert [each.message for each in caplog.records if each.name.startswith("aiohttp")] == []
