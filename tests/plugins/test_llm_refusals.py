"""What becomes of a prompt that a vendor or its model would not answer."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.models import VENDORS, WAIT, Waits, asked_of, complete, lent, streamed
from tests.support.vendors.server import vendor_server
from tests.support.vendors.wire import Answer, Call

from solward import ModelRefused, ProviderContext, Usage
from solward_plugins.llm import call

SENTENCE = "I can't help with that."


class Case(NamedTuple):
    vendor: str
    answer: Answer
    reason: str
    said: str = ""


CASES = {
    "openai's model": Case(
        "openai", Answer(refusal="refusal", refused=SENTENCE), "refusal", SENTENCE
    ),
    "openai's filter": Case("openai", Answer(text="", refusal="content_filter"), "content_filter"),
    "xai's model": Case("grok", Answer(refusal="refusal", refused=SENTENCE), "refusal", SENTENCE),
    "xai's filter": Case("grok", Answer(text="", refusal="content_filter"), "content_filter"),
    "anthropic": Case("anthropic", Answer(refusal="cyber", refused=SENTENCE), "cyber", SENTENCE),
    "gemini's answer": Case("gemini", Answer(refusal="SAFETY"), "safety"),
    "gemini's recitation": Case("gemini", Answer(refusal="RECITATION"), "recitation"),
    "gemini's prompt": Case(
        "gemini", Answer(refusal="prompt:PROHIBITED_CONTENT"), "prohibited_content"
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
async def test_a_refusal_is_an_error_with_its_reason_and_is_not_tried_again(case: Case) -> None:
    clock, vendor = Waits(), VENDORS[case.vendor]
    async with vendor_server(default=case.answer) as server:
        with pytest.raises(ModelRefused) as caught:
            await complete(vendor, server, None, WAIT, policy=clock.policy())
        assert server.served[case.vendor] == 1
    error = caught.value
    assert str(error) == f"{vendor.company} refused to answer this prompt ({case.reason})"
    assert (error.reason, error.said) == (case.reason, case.said)
    # The vendor counted it, so that a budget can.
    assert error.usage is not None
    assert error.usage.input_tokens > 0
    assert (error.retryable, error.may_cost, clock.waits) == (False, True, [])


@every_case
async def test_a_streamed_refusal_ends_the_stream_with_its_reason_after_its_usage(
    case: Case,
) -> None:
    clock, vendor = Waits(), VENDORS[case.vendor]
    pieces: list[str | Usage] = []
    async with vendor_server(default=case.answer) as server:
        stream = call.stream(vendor, asked_of(vendor), {}, lent(vendor, server), clock.policy())
        with pytest.raises(ModelRefused) as caught:  # noqa: PT012
            async for piece in stream:
                pieces.append(piece)
        assert server.served[case.vendor] == 1
    assert (caught.value.reason, caught.value.said) == (case.reason, case.said)
    # Counted once: by the piece, where one came.
    assert caught.value.usage is None
    [usage] = pieces
    assert isinstance(usage, Usage)
    assert usage.input_tokens > 0


@pytest.mark.parametrize("name", ["openai", "grok", "anthropic"])
async def test_what_came_before_a_refusal_is_no_answer_and_its_call_is_not_run(name: str) -> None:
    refusal = "content_filter" if name != "anthropic" else "bio"
    answer = Answer(text="First ", calls=(Call("wait", {}),), refusal=refusal)
    async with vendor_server(default=answer) as server:
        with pytest.raises(ModelRefused):
            await complete(VENDORS[name], server, None, WAIT)
        said: list[str | Usage] = []
        with pytest.raises(ModelRefused):  # noqa: PT012
            async for piece in call.stream(
                VENDORS[name], asked_of(VENDORS[name]), {}, lent(VENDORS[name], server)
            ):
                said.append(piece)
    assert "".join(each for each in said if isinstance(each, str)) == "First "


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("name", "status", "message", "reason"),
    [
        ("openai", 400, "Invalid prompt: flagged as potentially violating our usage policy.",
         "content_policy"),
        ("grok", 403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
         "bio"),
        ("anthropic", 400, "Output blocked by content filtering policy",
         "content_policy"),
    ],
)  # fmt: skip
async def test_an_error_of_the_vendors_policy_is_a_refusal_that_costs_nothing(
    name: str, status: int, message: str, reason: str, stream: bool
) -> None:
    async with vendor_server(default=Answer(status=status, message=message)) as server:
        with pytest.raises(ModelRefused) as caught:
            await (streamed if stream else complete)(VENDORS[name], server)
        assert server.served[name] == 1
    assert (caught.value.reason, caught.value.said, caught.value.may_cost) == (reason, "", False)
    # Nor does it look like a wrong key or a wrong model.
    assert "refused to answer this prompt" in str(caught.value)


@pytest.mark.parametrize("said", [SENTENCE, None])
async def test_a_refusal_in_openais_responses_is_one_too(said: str | None) -> None:
    paths = []
    refusal = {"type": "refusal", "refusal": said}
    plain = {"type": "output_text", "text": "Fine.", "annotations": []}
    body = {
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
        "model": "gpt-6-sol", "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto",
        "tools": [], "top_p": 1.0,
        "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                    "content": [refusal if said else plain]}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                  "input_tokens_details": {"cached_tokens": 0},
                  "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response(body)

    app = web.Application()
    app.router.add_post("/v1/{path:.*}", answer)
    async with TestServer(app) as server:
        # litellm takes this way with newer models, tools and an effort.
        asked = asked_of(VENDORS["openai"], WAIT, model="gpt-6-sol")
        context = ProviderContext("key", f"{server.make_url('/v1')}")
        asking = call.complete(VENDORS["openai"], asked, {"reasoningEffort": "low"}, context)
        if said is None:
            assert (await asking).text == "Fine."
        else:
            with pytest.raises(ModelRefused) as caught:
                await asking
            assert (caught.value.reason, caught.value.said) == ("refusal", SENTENCE)
            assert caught.value.usage is not None
            assert caught.value.usage.tokens == 15
    assert paths == ["/v1/responses"]
