"""The loopback vendor server answers as the four vendors document, whole, streamed and broken.

Shapes: platform.openai.com/docs/api-reference/chat, platform.claude.com/docs/en/api/messages,
/docs/en/build-with-claude/streaming and /docs/en/api/errors, ai.google.dev/api/generate-content.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from tests.vendors.asking import (
    SCHEMA,
    VENDORS,
    address_of,
    ask,
    body_of,
    client,
    events_of,
    headers_of,
    read,
)
from tests.vendors.scenarios import SAID, answer_for
from tests.vendors.server import vendor_server
from tests.vendors.wire import Answer, Call, CapturedRequest, Vendor

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


@pytest.mark.parametrize("vendor", ["openai", "grok"])
@pytest.mark.parametrize(
    ("scenario", "finish"), [("text", "stop"), ("two_calls", "tool_calls"), ("empty", None)]
)
async def test_openai_answers_are_what_its_own_package_reads(
    vendor: Vendor, scenario: str, finish: str | None
) -> None:
    types = pytest.importorskip("openai.types.chat")
    async with vendor_server() as server:
        whole = await ask(server.base_urls, vendor, f"key~{scenario}")
        streamed = await ask(server.base_urls, vendor, f"key~{scenario}", stream=True)
    completion = types.ChatCompletion.model_validate_json(whole.text, strict=True)
    assert [choice.finish_reason for choice in completion.choices] == ([finish] if finish else [])
    data = [data for _, data in events_of(streamed.text)]
    chunks = [types.ChatCompletionChunk.model_validate_json(text) for text in data[:-1]]
    finishes = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert [reason for reason in finishes if reason] == ([finish] if finish else [])
    assert len({chunk.id for chunk in chunks}) == 1


@pytest.mark.parametrize("vendor", ["openai", "grok"])
async def test_an_openai_completion_has_the_documented_fields(vendor: Vendor) -> None:
    async with vendor_server(lambda _: Answer(text="so", calls=(Call("wait"),))) as server:
        body = (await ask(server.base_urls, vendor)).json()
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "m-1"
    assert isinstance(body["created"], int)
    (choice,) = body["choices"]
    assert (choice["index"], choice["finish_reason"]) == (0, "tool_calls")
    (call,) = choice["message"].pop("tool_calls")
    assert choice["message"] == {"role": "assistant", "content": "so", "refusal": None}
    assert call["id"].startswith("call_")
    assert call["type"] == "function"
    assert call["function"] == {"name": "wait", "arguments": "{}"}


async def test_an_openai_stream_ends_with_done_and_tells_usage_only_when_asked() -> None:
    async with vendor_server() as server, client() as http:
        plain = await ask(server.base_urls, "openai", stream=True)
        asked = await http.post(
            address_of("openai", server.base_urls, True),
            headers=headers_of("openai", "key"),
            json=body_of("openai", True) | {"stream_options": {"include_usage": True}},
        )
    assert plain.headers["content-type"] == "text/event-stream"
    assert events_of(plain.text)[-1] == (None, "[DONE]")
    assert "usage" not in plain.text
    chunks = [json.loads(data) for _, data in events_of(asked.text)[:-1]]
    assert [chunk["usage"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert chunks[-1]["choices"] == []
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"


async def test_an_anthropic_message_has_the_documented_fields() -> None:
    script = Answer(text="so", calls=(Call("wait", {"reason": "x"}),), usage=(7, 3))
    async with vendor_server(lambda _: script) as server:
        body = (await ask(server.base_urls, "anthropic")).json()
    assert body.pop("id").startswith("msg_01")
    text, use = body.pop("content")
    assert text == {"type": "text", "text": "so"}
    assert use.pop("id").startswith("toolu_01")
    assert use == {"type": "tool_use", "name": "wait", "input": {"reason": "x"}}
    usage = body.pop("usage")
    assert (usage["input_tokens"], usage["output_tokens"]) == (7, 3)
    assert body == {
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "stop_reason": "tool_use",
        "stop_sequence": None,
    }


async def test_an_anthropic_stream_has_the_documented_order_of_events() -> None:
    script = Answer(text="abc", calls=(Call("wait", {"a": 1}),), usage=(7, 3))
    async with vendor_server(lambda _: script) as server:
        response = await ask(server.base_urls, "anthropic", stream=True)
    events = [(name, json.loads(data)) for name, data in events_of(response.text)]
    assert all(name == data["type"] for name, data in events)
    assert [name for name, _ in events] == [
        "message_start",
        "content_block_start",
        "ping",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "content_block_start",
        *["content_block_delta"] * 4,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0][1]["message"]["stop_reason"] is None
    assert events[0][1]["message"]["usage"]["input_tokens"] == 7
    assert events[1][1]["content_block"] == {"type": "text", "text": ""}
    assert events[7][1]["content_block"]["input"] == {}
    assert events[-2][1]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert events[-2][1]["usage"] == {"output_tokens": 3}


async def test_a_gemini_answer_has_the_documented_fields() -> None:
    script = Answer(text="so", calls=(Call("wait"),), usage=(7, 3))
    async with vendor_server(lambda _: script) as server:
        body = (await ask(server.base_urls, "gemini")).json()
    parts = [{"text": "so"}, {"functionCall": {"name": "wait", "args": {}}}]
    assert body["candidates"] == [
        {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    ]
    usage = body["usageMetadata"]
    assert usage["promptTokenCount"] == 7
    assert usage["candidatesTokenCount"] == 3
    assert usage["totalTokenCount"] == 10
    assert body["modelVersion"] == "m-1"
    assert body["responseId"]


async def test_a_gemini_stream_is_events_with_alt_sse_and_an_array_without() -> None:
    async with vendor_server() as server, client() as http:
        events = await ask(server.base_urls, "gemini", stream=True)
        array = await http.post(
            address_of("gemini", server.base_urls, True).removesuffix("?alt=sse"),
            headers=headers_of("gemini", "key"),
            json=body_of("gemini", True),
        )
    chunks = [json.loads(data) for _, data in events_of(events.text)]
    assert events.text.endswith("\r\n\r\n")
    reasons = [chunk["candidates"][0].get("finishReason") for chunk in chunks]
    assert reasons == [None, None, "STOP"]
    assert array.headers["content-type"] == "application/json"
    assert [chunk["candidates"] for chunk in array.json()] == [c["candidates"] for c in chunks]


@every_vendor
@whole_and_streamed
@pytest.mark.parametrize("status", [401, 403, 500, 503, 529])
async def test_an_error_has_the_vendors_shape(vendor: Vendor, stream: bool, status: int) -> None:
    async with vendor_server() as server:
        response = await ask(server.base_urls, vendor, f"sk-secret~{status}", stream=stream)
    assert response.status_code == status
    body = response.json()
    if vendor == "openai":
        assert set(body["error"]) == {"message", "type", "param", "code"}
    elif vendor == "grok":
        assert {name: type(value) for name, value in body.items()} == {"code": str, "error": str}
    elif vendor == "anthropic":
        kinds = {401: "authentication_error", 403: "permission_error", 529: "overloaded_error"}
        assert body["type"] == "error"
        assert body["error"]["type"] == kinds.get(status, "api_error")
        assert body["request_id"].startswith("req_")
    else:
        names = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 500: "INTERNAL"}
        names[503] = "UNAVAILABLE"
        assert body["error"]["code"] == status
        assert body["error"]["status"] == names.get(status, "UNKNOWN")
    assert "sk-secret" not in response.text


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
async def test_a_reset_comes_after_a_part_of_the_body(vendor: Vendor, stream: bool) -> None:
    async with vendor_server() as server, client() as http:
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
        await asyncio.gather(*(ask(server.base_urls, vendor) for vendor in VENDORS * 3))
        took = time.monotonic() - began
    assert 0.2 <= took < 12 * 0.2


async def test_it_keeps_as_many_requests_as_told_and_counts_all() -> None:
    async with vendor_server(keep=2) as server:
        for vendor in VENDORS:
            await ask(server.base_urls, vendor)
    assert [request.vendor for request in server.requests] == ["anthropic", "gemini"]
    assert server.served == dict.fromkeys(VENDORS, 1)
