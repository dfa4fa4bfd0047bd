"""Each scenario a key can ask for means the same through every vendor, whole and streamed."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from tests.support.vendors.asking import (
    VENDORS,
    address_of,
    ask,
    body_of,
    client,
    events_of,
    headers_of,
    read,
)
from tests.support.vendors.scenarios import SAID, answer_for
from tests.support.vendors.server import VendorServer, vendor_server
from tests.support.vendors.wire import Answer, Vendor

every_vendor = pytest.mark.parametrize("vendor", VENDORS)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@every_vendor
@whole_and_streamed
@pytest.mark.parametrize(
    ("scenario", "text", "calls"),
    [
        ("text", SAID, []),
        ("text:Buy: now", "Buy: now", []),
        (
            'tool:transfer:{"to":"a:b","amount":10.0}',
            "",
            [("transfer", {"to": "a:b", "amount": 10.0})],
        ),
        ("tool:wait", "", [("wait", {})]),
        ("two_calls", "", [("check_balance", {}), ("wait", {"reason": "scripted"})]),
        ("list_arguments", "", [("wait", ["scripted", 2])]),
        ("empty", "", []),
    ],
)
async def test_a_scenario_says_the_same_through_every_vendor(
    vendor: Vendor, stream: bool, scenario: str, text: str, calls: list[Any]
) -> None:
    async with vendor_server() as server:
        response = await ask(server.base_urls, vendor, f"key~{scenario}", stream=stream)
    assert response.status_code == 200
    assert read(vendor, response, stream) == (text, calls)


@every_vendor
@whole_and_streamed
async def test_malformed_arguments_arrive_as_each_vendor_sends_them(
    vendor: Vendor, stream: bool
) -> None:
    async with vendor_server() as server:
        response = await ask(server.base_urls, vendor, "key~malformed", stream=stream)
    if vendor != "gemini":
        assert read(vendor, response, stream) == ("", [("wait", '{"reason": "cut of')])
        return
    body = json.loads(events_of(response.text)[-1][1]) if stream else response.json()
    (candidate,) = body["candidates"]
    assert candidate["content"] == {}
    assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"


@every_vendor
async def test_429_says_when_to_come_back_and_then_succeeds_key_by_key(vendor: Vendor) -> None:
    async with vendor_server() as server:
        first, second, other = [
            await ask(server.base_urls, vendor, key) for key in ("a~429", "a~429", "b~429")
        ]
    assert [first.status_code, second.status_code, other.status_code] == [429, 200, 429]
    assert first.headers["retry-after"] == "2"
    assert ('"retryDelay": "2s"' in first.text) is (vendor == "gemini")
    assert read(vendor, second, False) == (SAID, [])


@every_vendor
async def test_500x2_fails_twice_and_500_always(vendor: Vendor) -> None:
    async with vendor_server() as server:
        twice = [(await ask(server.base_urls, vendor, "a~500x2")).status_code for _ in range(4)]
        always = [(await ask(server.base_urls, vendor, "a~500")).status_code for _ in range(4)]
    assert twice == [500, 500, 200, 200]
    assert always == [500] * 4


@every_vendor
@whole_and_streamed
async def test_a_reset_comes_after_a_part_of_the_body(
    server: VendorServer, vendor: Vendor, stream: bool
) -> None:
    async with client() as http:
        request = http.stream(
            "POST",
            address_of(vendor, server.base_urls, stream),
            headers=headers_of(vendor, "key~reset"),
            json=body_of(vendor, stream),
        )
        async with request as response:
            assert response.status_code == 200
            with pytest.raises(httpx.ReadError):
                await response.aread()


@pytest.mark.more
@every_vendor
@whole_and_streamed
async def test_a_drip_brings_single_bytes_and_no_end(
    vendor: Vendor, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with vendor_server(drip_s=0.001) as server, client() as http:
        request = http.stream(
            "POST",
            address_of(vendor, server.base_urls, stream),
            headers=headers_of(vendor, "key~drip"),
            json=body_of(vendor, stream),
        )
        async with request as response:
            brought, parts = b"", 0
            async for part in response.aiter_raw():
                brought, parts = brought + part, parts + 1
                if brought.endswith(b" " * 20):
                    break
    begins = {"anthropic": b"event: message_start"}.get(vendor, b"data: {") if stream else b"{"
    assert brought.startswith(begins)
    assert parts > len(brought) / 20
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    if not stream:
        with pytest.raises(json.JSONDecodeError):
            json.loads(brought)


async def test_leaving_the_server_cuts_a_drip_at_once() -> None:
    async with vendor_server() as server:
        asking = asyncio.create_task(ask(server.base_urls, "openai", "key~drip"))
        while not server.requests:
            await asyncio.sleep(0.005)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    with pytest.raises(httpx.TransportError):
        await asking


@every_vendor
@whole_and_streamed
async def test_garbage_is_html_with_status_200(vendor: Vendor, stream: bool) -> None:
    async with vendor_server() as server:
        response = await ask(server.base_urls, vendor, "key~garbage", stream=stream)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.text.startswith("<html>")


@pytest.mark.parametrize("name", ["", "tol:wait:{}", "tool", "tool:wait:{", "500x", "500xy", "42"])
def test_an_unknown_scenario_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=r"no scenario|Expecting"):
        answer_for(name, 0, Answer())


@every_vendor
async def test_an_unknown_scenario_is_a_400_not_a_silent_success(vendor: Vendor) -> None:
    async with vendor_server() as server:
        response = await ask(server.base_urls, vendor, "key~txt")
    assert response.status_code == 400
    assert "no scenario 'txt'" in response.text
