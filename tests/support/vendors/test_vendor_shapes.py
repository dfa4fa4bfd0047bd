"""What the loopback vendor server sends has the shapes the four vendors document.

Sources: platform.openai.com/docs/api-reference/chat, platform.claude.com/docs/en/api/messages,
/docs/en/build-with-claude/streaming and /docs/en/api/errors, ai.google.dev/api/generate-content.
"""

from __future__ import annotations

import json

import pytest
from tests.support.vendors.asking import (
    VENDORS,
    address_of,
    ask,
    body_of,
    client,
    events_of,
    headers_of,
)
from tests.support.vendors.server import vendor_server
from tests.support.vendors.wire import Answer, Call, Vendor

every_vendor = pytest.mark.parametrize("vendor", VENDORS)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


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
