"""Answers of a vendor that came with status 200 and are odd: each is billed and asked for once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web
from tests.agents.test_held_outcomes import AGENT
from tests.promises import promise
from tests.support.http import served
from tests.support.models import KEY, VENDORS, WAIT, Waits, asked_of

from solward import Completion, ModelRefused, ProviderContext, ProviderError, ToolCall, Usage
from solward.agents.act import act
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
        with pytest.raises(ProviderError, match="cannot be read: its content is encoded") as told:
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
}
UNCOUNTED: dict[str, Any] = {
    "a list": [1],
    "text": "x",
    "a key twice": b'{"choices": [], "choices": []}',
    "depth": b'{"choices":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "NaN": b'{"choices": NaN}',
    "no UTF-8": b'{"choices": "\xff"}',
    "half": b'{"choices": [',
}


@promise("unreadable-answer-once")
@pytest.mark.parametrize("name", [*UNREADABLE, *UNCOUNTED])
async def test_what_cannot_be_read_is_said_counted_and_not_asked_for_again(name: str) -> None:
    with pytest.raises(ProviderError, match=r"answer cannot be read: it (is not|has no) ") as told:
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


# Arguments that come as an object.
OBJECTS: dict[str, tuple[Any, Any]] = {
    "anthropic": (
        ANTHROPIC,
        {
            "id": "x", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "tool_use", "id": "c", "name": "wait", "input": {"a": 1}}],
            "stop_reason": "tool_use", "usage": {"input_tokens": 10, "output_tokens": 5},
        },
    ),
    "gemini": (
        GEMINI,
        {
            "candidates": [
                {
                    "content": {"parts": [{"functionCall": {"name": "wait", "args": {"a": 1}}}]},
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
        },
    ),
}  # fmt: skip
every_object = pytest.mark.parametrize("name", OBJECTS)


def with_arguments(name: str, text: str) -> bytes:
    return json.dumps(OBJECTS[name][1]).replace('{"a": 1}', text).encode()


@promise("vendor-answers-read-strictly")
@every_object
@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', '{"a":{"b":1,"\\u0062":2}}', '{"a":NaN}', '{"a":-Infinity}',
     '{"a":' + "[" * 70 + "]" * 70 + "}"],
    ids=["key twice", "twice by an escape", "NaN", "Infinity", "depth"],
)  # fmt: skip
async def test_arguments_that_two_programs_read_differently_are_no_answer(
    name: str, text: str
) -> None:
    with pytest.raises(
        ProviderError, match="answer cannot be read: it is not JSON, repeats"
    ) as told:
        await whole(with_arguments(name, text), OBJECTS[name][0])
    assert (told.value.retryable, told.value.may_cost, told.value.usage) == (False, True, None)


@promise("vendor-answers-read-strictly")
@every_object
async def test_arguments_that_are_an_object_have_the_numbers_that_the_vendor_wrote(
    name: str,
) -> None:
    exact = "0.12345678901234567890"
    written = with_arguments(name, f'{{"amount":{exact}}}')
    completion = await whole(written, OBJECTS[name][0])
    [called] = completion.tool_calls
    assert called == ToolCall("wait", {"amount": Decimal(exact)})
    # What nobody can store stays text, which is not run.
    for text in ('{"a":"\\ud800"}', '{"a":%s}' % ("9" * 500)):
        completion = await whole(with_arguments(name, text), OBJECTS[name][0])
        assert isinstance(completion.tool_calls[0].arguments, str)
        assert completion.usage is not None


SOUND = ToolCall("wait", {})
FORMS: dict[str, tuple[Any, Any, tuple[ToolCall, ...] | None]] = {
    "a reference": (GROK, message([{"type": "reference", "reference_ids": [1]}, "Hi."]), ()),
    "an old call": (GROK, message("Hi.", function_call=CALL["function"]), (SOUND,)),
    "no id": (GROK, message("Hi.", tool_calls=[{"function": CALL["function"]}]), (SOUND,)),
    "an object": (
        GROK, message("Hi.", tool_calls=[{"function": {"name": "wait", "arguments": {}}}]), (SOUND,)
    ),
    "a custom call": (
        GROK, message("Hi.", tool_calls=[{"type": "custom", "custom": {"name": "wait"}}]), None
    ),
    "a null call": (GROK, message("Hi.", tool_calls=[None]), None),
    "a call without a function": (GROK, message("Hi.", tool_calls=[{"function": None}]), None),
    "a name that is a number": (
        GROK, message("Hi.", tool_calls=[{"function": {"name": 5, "arguments": "{}"}}]), None
    ),
    "calls that are text": (GROK, message("Hi.", tool_calls="wait"), None),
    "Gemini's call without arguments": (
        GEMINI,
        {"candidates": [{"content": {"parts": [
            {"text": "Hi."}, {"executableCode": {}}, {"functionCall": {"name": "wait"}},
        ]}}]},
        (ToolCall("wait", None),),
    ),
    "a vendor's own tool": (
        ANTHROPIC,
        {"type": "message", "model": "m", "role": "assistant", "stop_reason": "end_turn",
         "content": [{"type": "server_tool_use", "id": "s", "name": "transfer", "input": {}},
                     {"type": "new"}, None, {"type": "text", "text": "Hi."}],
         "usage": {"input_tokens": 10, "output_tokens": 5}},
        (),
    ),
}  # fmt: skip


@promise("odd-entries-set-apart")
@pytest.mark.parametrize("name", FORMS)
async def test_what_is_in_no_known_form_loses_nothing_else(name: str) -> None:
    vendor, body, calls = FORMS[name]
    completion = await whole(body, vendor)
    assert completion.text == "Hi."
    if calls is None:
        # Named, and refused where it would run.
        [odd] = completion.tool_calls
        done = await act(AGENT, 1, odd, run_skill=never, spends=True)
        assert odd.name in ("wait", "a call in no known form")
        assert "Not executed: the arguments must be a JSON object" in done.outcome
    else:
        assert completion.tool_calls == calls


async def never(*_: Any) -> str:
    raise AssertionError("it ran")


@promise("odd-entries-set-apart")
async def test_a_sound_call_comes_before_an_odd_one() -> None:
    completion = await whole(tool(None, CALL, {"type": "custom", "custom": {"name": "look"}}))
    assert [each.name for each in completion.tool_calls] == [
        "wait", "a call in no known form", "look",
    ]  # fmt: skip
    with pytest.raises(ModelRefused) as told:
        await whole(message([{"type": "refusal", "refusal": "I will not."}]))
    assert told.value.said == "I will not."


@promise("odd-entries-set-apart")
@pytest.mark.parametrize(
    "usage", ["x", None, [1], {"input_tokens": "100", "prompt_tokens": "100"}, {"total_tokens": -5}]
)
@pytest.mark.parametrize("vendor", [GROK, ANTHROPIC, GEMINI], ids=["grok", "anthropic", "gemini"])
async def test_a_usage_that_cannot_be_added_up_loses_no_answer_and_counts_nothing_false(
    vendor: Any, usage: Any
) -> None:
    sent = dict(CUT_OFF[vendor.name][1])
    sent |= {"usage": usage, "usageMetadata": usage, "stop_reason": "end_turn"}
    if vendor is GEMINI:
        sent["candidates"] = [{**sent["candidates"][0], "finishReason": "STOP"}]
        del sent["usage"]
    if vendor is GROK:
        sent = message("Hi.", tool_calls=[CALL]) | {"usage": usage}
    completion = await whole(sent, vendor)
    assert completion.tool_calls[0].name == "wait"
    assert completion.usage is None


async def streamed(body: bytes, vendor: Any = GROK, **named: Any) -> list[Any]:
    """The pieces of a stream, then its error; the vendor is asked once."""
    asked, found = list[Any](), list[Any]()
    async with answering(body, asked) as context:
        pieces = call.stream(vendor, asked_of(vendor, **named), {}, context, Waits().policy())
        try:
            async for each in pieces:
                found.append(each)
        except ProviderError as error:
            found.append(error)
    assert len(asked) == 1
    return found


def claude(*texts: str, end: bool = True) -> bytes:
    """A stream of Anthropic's."""
    begun = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [],
             "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}}  # fmt: skip
    chunks: list[Any] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    chunks += [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in texts
    ]
    last = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    ends = [{"type": "message_delta", **last}, {"type": "message_stop"}]
    return events(*chunks, *(ends if end else ()))


@promise("odd-entries-set-apart")
async def test_a_streams_usage_that_cannot_be_added_up_is_not_told() -> None:
    sound = claude("Hi.")
    assert [str, Usage] == [type(each) for each in await streamed(sound, ANTHROPIC)]
    for count, odd in ((b'"input_tokens": 10', b'"input_tokens": "10"'), (b": 5}", b": null}")):
        assert await streamed(sound.replace(count, odd), ANTHROPIC) == ["Hi."]
    counted = chat(choices=[], usage="x")
    assert await streamed(events(piece("Hi.")) + END + events(counted)) == ["Hi."]


END = events(piece(None, finish_reason="stop"))
BROKEN: dict[str, tuple[Any, bytes, str]] = {
    "no reason to end": (GROK, events(piece("He")), "cannot be read: it ended before"),
    "no end of Anthropic's": (ANTHROPIC, claude("He", end=False), "read: it ended before"),
    "no JSON": (GROK, events(piece("He")) + b"data: {bad\n\n" + END, "cannot be read: it is not"),
    "a key twice": (
        ANTHROPIC, claude("He", end=False) + b'data: {"a":1,"a":2}\n\n' + claude("llo"),
        "cannot be read: it is not",
    ),
    "an error": (
        GROK, events(piece("He"), {"error": {"message": "x", "code": 500}}),
        r"failed \(an error in its answer\)",
    ),
    "an error of Anthropic's": (
        ANTHROPIC,
        claude("He", end=False) + events({"type": "error", "error": {"type": "overloaded_error"}}),
        r"is overloaded \(an error in its answer, overloaded_error\)",
    ),
}  # fmt: skip


@promise("broken-streams-counted")
@pytest.mark.parametrize("name", BROKEN)
async def test_a_stream_that_is_not_all_there_says_so_and_stays_counted(name: str) -> None:
    vendor, body, words = BROKEN[name]
    *texts, error = await streamed(body, vendor)
    assert texts == ["He"]
    assert isinstance(error, ProviderError)
    assert re.search(words, str(error))
    # No usage, so that what was reserved stays.
    assert (error.may_cost, error.usage) == (True, None)


@pytest.mark.parametrize("halves", [("a\ud83d", "\ude00b"), ("\ud83d", "\ude00", "")])
async def test_a_pair_of_surrogates_in_two_pieces_is_one_character(halves: tuple[str, ...]) -> None:
    for vendor, body in (
        (GROK, events(*map(piece, halves)) + END),
        (ANTHROPIC, claude(*halves)),
    ):
        texts = [each for each in await streamed(body, vendor) if isinstance(each, str)]
        assert "".join(texts) in ("a\U0001f600b", "\U0001f600")
    # Of a lone half nothing is lost but itself; it is cleaned where it leaves the host.
    texts = [each for each in await streamed(events(piece("a\ud83d")) + END) if each]
    assert "".join(each for each in texts if isinstance(each, str)) == "a\ud83d"


async def test_an_event_of_many_lines_and_a_line_separator_in_its_text_are_read() -> None:
    said = json.dumps(piece("a\u2028b"), ensure_ascii=False).replace(', "model"', ',\n"model"')
    body = b"\xef\xbb\xbf: hello\r\nevent: x\r\n" + b"".join(
        b"data: %s\r\n" % line.encode() for line in said.split("\n")
    )
    texts = [each for each in await streamed(body + b"\r\n" + END) if isinstance(each, str)]
    assert texts == ["a\u2028b"]


RESPONSE = {
    "id": "r", "object": "response", "created_at": 1, "model": "gpt-6-sol", "error": None,
    "incomplete_details": None, "instructions": None, "metadata": {}, "tools": [], "output": [],
    "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "top_p": 1.0,
    "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
}  # fmt: skip


@promise("errors-in-answers")
@pytest.mark.parametrize(
    ("fields", "words", "asked_for"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "x"}},
         "OpenAI failed (an error in its answer, server_error)", 4),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "x"}},
         "OpenAI is limiting the rate of requests (an error in its answer, rate_limit_", 4),
        ({"status": "failed", "error": {"code": "invalid_prompt", "message": "x"}},
         "OpenAI refused the request (an error in its answer, invalid_prompt)", 1),
        ({"status": "failed", "output": None},
         "OpenAI refused the request (an error in its answer, failed)", 1),
        ({"status": "completed", "output": None},
         "the model's answer cannot be read: it is not in the vendor's format", 1),
    ],
    ids=["server_error", "rate_limit_exceeded", "invalid_prompt", "failed", "null output"],
)  # fmt: skip
async def test_an_error_in_an_answer_is_the_vendors_and_has_no_status(
    fields: Any, words: str, asked_for: int
) -> None:
    vendor, asked = VENDORS["openai"], list[Any]()
    async with answering(RESPONSE | fields, asked) as context:
        request = asked_of(vendor, WAIT, model="gpt-6-sol")
        options = {"reasoningEffort": "low"}
        with pytest.raises(ProviderError) as told:
            await call.complete(vendor, request, options, context, Waits().policy())
    assert words in str(told.value)
    assert "HTTP" not in str(told.value)
    assert (len(asked), told.value.retryable) == (asked_for, asked_for > 1)
    assert told.value.may_cost
    assert told.value.usage.tokens == 15 * asked_for


@promise("errors-in-answers")
@pytest.mark.parametrize(
    ("body", "words", "asked_for"),
    [
        ({"error": {"message": "slow down", "code": 429}}, "is limiting the rate", 4),
        ({"error": "overloaded"}, "refused the request (an error in its answer)", 1),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "is overloaded (an error", 4),
        ({"error": {"code": 503, "status": "UNAVAILABLE"}}, "is unavailable (an error", 4),
    ],
)
async def test_other_vendors_errors_in_answers_are_theirs_too(
    body: Any, words: str, asked_for: int
) -> None:
    asked = list[Any]()
    async with answering(body, asked) as context:
        with pytest.raises(ProviderError, match=re.escape(words)) as told:
            await call.complete(GROK, asked_of(GROK), {}, context, Waits().policy())
    assert (len(asked), told.value.may_cost) == (asked_for, True)


STATUSES: dict[str, tuple[int, Any, str, int]] = {
    "a quota": (
        429, {"error": {"code": "insufficient_quota", "type": "insufficient_quota"}},
        "the account has no credit left (HTTP 429, insufficient_quota)", 1,
    ),
    "a quota by its type": (
        429, {"error": {"code": "429", "type": "insufficient_quota"}}, "no credit left", 1
    ),
    "Azure's filter": (
        400, {"error": {"code": "content_filter", "message": "filtered"}},
        "refused to answer this prompt (content_filter)", 1,
    ),
    "overloaded": (529, {"type": "error", "error": {"type": "overloaded_error"}}, "HTTP 529", 4),
    "moved": (302, None, "redirects the request (HTTP 302), which is not followed", 1),
    "moved for good": (308, None, "redirects the request (HTTP 308), which is not followed", 1),
}  # fmt: skip


@promise("vendor-statuses")
@pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
@pytest.mark.parametrize("name", STATUSES)
async def test_a_status_is_tried_again_only_where_that_helps(name: str, vendor: Any) -> None:
    status, body, words, asked_for = STATUSES[name]
    asked = list[str]()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        headers = {"Location": "/elsewhere"}
        return web.json_response(body, status=status, headers=headers)

    async with served(answer, method="POST") as url:
        context = ProviderContext(KEY, url)
        with pytest.raises(ProviderError, match=re.escape(words)) as told:
            await call.complete(vendor, asked_of(vendor), {}, context, Waits().policy())
    assert (len(asked), told.value.may_cost) == (asked_for, False)
    assert "/elsewhere" not in asked


@promise("vendor-statuses")
@pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
@pytest.mark.parametrize(
    "sent",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{", b"no HTTP"],
    ids=["nothing", "half", "no HTTP"],
)
async def test_an_answer_that_breaks_off_is_asked_for_once_an_attempt(
    vendor: Any, sent: bytes
) -> None:
    asked = list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(sent)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        context = ProviderContext(KEY, f"http://127.0.0.1:{port}")
        policy = Waits().policy(attempts=2)
        with pytest.raises(ProviderError, match="broke off its answer") as told:
            await call.complete(vendor, asked_of(vendor), {}, context, policy)
    assert (len(asked), told.value.may_cost) == (2, True)


@promise("vendor-statuses")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_each_answer_that_broke_off_counts_as_much_as_the_one_that_came(
    stream: bool,
) -> None:
    asked = list[int]()
    sent = events(piece("Hi.")) + END + events(chat(choices=[]))

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(1)
        if len(asked) > 2:
            body = sent if stream else json.dumps(message("Hi.")).encode()
            return web.Response(body=body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Length": "999"})
        await response.prepare(request)
        assert request.transport is not None
        request.transport.close()
        return response

    async with served(answer) as url:
        context, policy = ProviderContext(KEY, url), Waits().policy()
        if stream:
            pieces = call.stream(GROK, asked_of(GROK), {}, context, policy)
            said, usage = [each async for each in pieces]
        else:
            completion = await call.complete(GROK, asked_of(GROK), {}, context, policy)
            said, usage = completion.text, completion.usage
    assert said == "Hi."
    assert isinstance(usage, Usage)
    assert (len(asked), usage.input_tokens, usage.output_tokens) == (3, 30, 15)
