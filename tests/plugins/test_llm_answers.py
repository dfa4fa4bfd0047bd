"""Answers of a vendor that came with status 200 and are odd: each is billed and asked for once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.promises import promise
from tests.support.http import served
from tests.support.models import KEY, VENDORS, WAIT, Waits, asked_of

from solward import Completion, ModelRefused, ProviderContext, ProviderError, Usage
from solward_plugins.llm import call

GROK, ANTHROPIC, GEMINI = VENDORS["grok"], VENDORS["anthropic"], VENDORS["gemini"]
COUNTED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
    {"type": "text", "text": "All "},
    "is ",
    {"type": "text", "text": "well."},
]


def chat(**fields: Any) -> Any:
    return {"id": "x", "object": "chat.completion", "model": "m", "usage": COUNTED, **fields}


def message(content: Any, **fields: Any) -> Any:
    said = {"role": "assistant", "content": content, **fields}
    return chat(choices=[{"index": 0, "finish_reason": "stop", "message": said}])


def tool(*calls: Any) -> Any:
    return message(None, tool_calls=list(calls))


def events(*chunks: Any) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)


def piece(content: Any, **fields: Any) -> Any:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None, **fields}
    return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


@asynccontextmanager
async def answering(
    body: Any, asked: list[Any], headers: dict[str, str] | None = None
) -> AsyncIterator[ProviderContext]:
    """A vendor that answers each request with 200, `headers` and `body`."""

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        kind = "text/event-stream" if asked[-1].get("stream") else "application/json"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=data, content_type=kind, headers=headers)

    app = web.Application()
    app.router.add_route("POST", "/{path:.*}", answer)
    async with served(app, 0) as url:
        yield ProviderContext(KEY, url)


async def whole(body: Any, vendor: Any = GROK) -> Completion:
    """The answer, for which the vendor is asked once, whatever becomes of it."""
    asked, clock = list[Any](), Waits()
    async with answering(body, asked) as context:
        try:
            return await call.complete(vendor, asked_of(vendor, WAIT), {}, context, clock.policy())
        finally:
            assert (len(asked), clock.waits) == (1, [])


@promise("unreadable-answer-once")
@pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
async def test_an_answer_whose_encoding_is_false_is_asked_for_once(vendor: Any) -> None:
    asked, clock = list[Any](), Waits()
    async with answering(message("All is well."), asked, {"Content-Encoding": "gzip"}) as context:
        with pytest.raises(ProviderError, match="cannot be read: it is encoded") as told:
            await call.complete(vendor, asked_of(vendor, WAIT), {}, context, clock.policy())
    assert (len(asked), told.value.retryable, told.value.may_cost) == (1, False, True)


@promise("unreadable-answer-once")
async def test_a_list_of_parts_is_read_as_its_text() -> None:
    completion = await whole(message(PARTS))
    assert completion.text == "All is well."
    assert completion.usage is not None
    assert (completion.usage.input_tokens, completion.usage.output_tokens) == (10, 5)
    # Cleaned later, where the answer leaves the host.
    assert (await whole(message([{"type": "text", "text": "a\ud800"}]))).text == "a\ud800"
    # A refusal stands beside it as beside text.
    with pytest.raises(ModelRefused):
        await whole(message(PARTS, refusal="I will not."))
    asked = list[Any]()
    body = events(*(piece([part]) for part in PARTS), piece(None, finish_reason="stop"))
    async with answering(body, asked) as context:
        pieces = call.stream(GROK, asked_of(GROK), {}, context, Waits().policy())
        texts = [each async for each in pieces if isinstance(each, str)]
    assert "".join(texts) == "All is well."
    assert len(asked) == 1


UNREADABLE: dict[str, Any] = {
    "a part that is no text": message([{"type": "image_url", "image_url": {"url": "x"}}]),
    "a number": message(5),
    "an object": message({"text": "a"}),
    "no choices": chat(),
    "null choices": chat(choices=None),
    "a null choice": chat(choices=[None]),
    "a null message": chat(choices=[{"index": 0, "message": None}]),
    "a message that is text": chat(choices=[{"index": 0, "message": "hi"}]),
    "a call without a function": tool({"id": "c", "type": "function", "function": None}),
    "a null call": tool(None),
    "calls that are text": message("hi", tool_calls="wait"),
    "a name that is a number": tool(
        {"id": "c", "type": "function", "function": {"name": 5, "arguments": "{}"}}
    ),
    "arguments that are a number": tool(
        {"id": "c", "type": "function", "function": {"name": "wait", "arguments": 5}}
    ),
}
UNCOUNTED: dict[str, Any] = {
    "an error without a status": {"error": {"message": "oops"}},
    "a list": [1],
    "text": "x",
    "a usage that is text": message("hi") | {"usage": "x"},
    "depth": b'{"choices":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "NaN": b'{"choices": NaN}',
    "no UTF-8": b'{"choices": "\xff"}',
    "half": b'{"choices": [',
}


@promise("unreadable-answer-once")
@pytest.mark.parametrize("name", [*UNREADABLE, *UNCOUNTED])
async def test_what_cannot_be_read_is_said_counted_and_not_asked_for_again(name: str) -> None:
    with pytest.raises(ProviderError, match="answer cannot be read: it is not ") as told:
        await whole(UNREADABLE.get(name) or UNCOUNTED[name])
    assert "HTTP" not in str(told.value)
    assert (told.value.retryable, told.value.may_cost) == (False, True)
    usage = told.value.usage
    if name in UNREADABLE:
        assert isinstance(usage, Usage)
        assert (usage.input_tokens, usage.output_tokens) == (10, 5)
    else:
        assert usage is None


@promise("unreadable-answer-once")
@pytest.mark.parametrize(
    ("vendor", "body"),
    [
        (ANTHROPIC, {"type": "message", "content": "hi", "usage": {"input_tokens": 10}}),
        (
            GEMINI,
            {
                "candidates": [{"content": {"parts": [{"text": 5}]}}],
                "usageMetadata": {"promptTokenCount": 10},
            },
        ),
        # A proxy's, under the names of two vendors.
        (GROK, message(5) | {"usage": {**COUNTED, "input_tokens": 10, "output_tokens": 5}}),
    ],
    ids=["anthropic", "gemini", "both"],
)
async def test_other_vendors_tokens_are_counted_by_their_own_names(vendor: Any, body: Any) -> None:
    with pytest.raises(ProviderError, match="cannot be read") as told:
        await whole(body, vendor)
    assert told.value.usage.input_tokens == 10


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "delta": "x"}]},
        [1],
    ],
    ids=["null choices", "a null choice", "a null delta", "a delta that is text", "a list"],
)
@promise("unreadable-answer-once")
async def test_a_stream_that_cannot_be_read_is_not_asked_for_again(chunk: Any) -> None:
    asked, clock = list[Any](), Waits()
    async with answering(events(chunk), asked) as context:
        with pytest.raises(ProviderError, match="the model's answer cannot be read: ") as told:
            [each async for each in call.stream(GROK, asked_of(GROK), {}, context, clock.policy())]
    assert (told.value.retryable, told.value.may_cost, len(asked)) == (False, True, 1)


CALL = {"id": "c", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
CUT_OFF: dict[str, tuple[Any, Any]] = {
    "grok": (GROK, tool(CALL)),
    "anthropic": (
        ANTHROPIC,
        {
            "id": "x", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "tool_use", "id": "c", "name": "wait", "input": {}}],
            "stop_reason": "max_tokens", "usage": {"input_tokens": 10, "output_tokens": 5},
        },
    ),
    "gemini": (
        GEMINI,
        {
            "candidates": [
                {
                    "content": {"parts": [{"functionCall": {"name": "wait", "args": {}}}]},
                    "finishReason": "MAX_TOKENS",
                }
            ],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
        },
    ),
}  # fmt: skip
CUT_OFF["grok"][1]["choices"][0]["finish_reason"] = "length"


@promise("unreadable-answer-once")
@pytest.mark.parametrize("name", CUT_OFF)
async def test_a_tool_call_of_an_answer_that_was_cut_off_is_not_run(name: str) -> None:
    vendor, body = CUT_OFF[name]
    with pytest.raises(ProviderError, match="cut the answer off within a tool call") as told:
        await whole(body, vendor)
    assert (told.value.retryable, told.value.may_cost) == (False, True)
    assert told.value.usage is not None
    assert told.value.usage.tokens == 15
