"""The four providers on their real wire formats, in a model host as the service runs them: what
they send, and what they make of answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
import pytest_asyncio
from tests.support.agents import AGENT, Notebook, Scripted, Skills, done, parts
from tests.support.hosts import model_hosts
from tests.support.models import KEY, VENDORS, WAIT, asked_of, lent, registry
from tests.support.vendors.scenarios import SAID
from tests.support.vendors.server import VendorServer, vendor_server
from tests.support.vendors.wire import Answer, Call, CapturedRequest

from solward import (
    Completion,
    CompletionRequest,
    Message,
    ModelRefused,
    ProviderContext,
    ToolCall,
    ToolDefinition,
    Usage,
)
from solward.agents.cycle import run_cycle
from solward.agents.think import system_prompt
from solward.plugins import LoadedProvider
from solward_plugins.llm import call
from solward_plugins.llm.vendor import DEFAULT_MAX_TOKENS, Vendor

pytestmark = pytest.mark.asyncio(loop_scope="module")

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)

USAGE = (1_200, 34)
TRANSFER = Answer(
    text="Because.",
    calls=(
        Call("transfer", {"to": AGENT.wallet_id, "amount": 0.1}),
        Call("wait", {}),
    ),
    usage=USAGE,
)
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "grok": "/xai/v1/chat/completions",
    "gemini": "/models/{model}:generateContent",
}
AUTH = {
    "openai": ("authorization", f"Bearer {KEY}"),
    "anthropic": ("x-api-key", KEY),
    "grok": ("authorization", f"Bearer {KEY}"),
    "gemini": ("x-goog-api-key", KEY),
}


PROVIDERS: dict[str, LoadedProvider] = {}


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def hosts() -> AsyncIterator[None]:
    async with model_hosts() as (_, providers):
        PROVIDERS.update(providers)
        yield


async def complete(
    vendor: Vendor,
    server: VendorServer,
    scenario: str | None = None,
    *tools: ToolDefinition,
    options: Mapping[str, Any] | None = None,
) -> Completion:
    asked, context = asked_of(vendor, *tools), lent(vendor, server, scenario)
    return await PROVIDERS[vendor.name].complete(asked, options, context)


async def streamed(
    vendor: Vendor, server: VendorServer, scenario: str | None = None
) -> list[str | Usage]:
    pieces = PROVIDERS[vendor.name].stream(asked_of(vendor), {}, lent(vendor, server, scenario))
    return [piece async for piece in pieces]


def most_tokens(request: CapturedRequest) -> Any:
    body = request.body.get("generationConfig", request.body)
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    (value,) = [body[name] for name in names if name in body]
    return value


def temperature(request: CapturedRequest) -> Any:
    return request.body.get("generationConfig", request.body).get("temperature")


@pytest.mark.more
async def test_the_same_cycle_through_all_four_asks_and_remembers_the_same() -> None:
    remembered, requests = {}, {}
    async with vendor_server(default=TRANSFER) as server:
        for name, vendor in VENDORS.items():
            agent = replace(AGENT, llm_provider=name, llm_model=vendor.default_model)
            notebook, skills = Notebook(agent), Skills(done)
            context = lent(vendor, server)

            async def ask(
                request: CompletionRequest, name: str = name, context: ProviderContext = context
            ) -> Any:
                return await PROVIDERS[name].complete(request, {}, context)

            ready = parts(Scripted(), notebook, skills)
            await run_cycle(
                "a1",
                3,
                replace(ready, provider=lambda agent, ask=ask: ask, tools=registry().tools),
            )
            [decision] = notebook.decisions
            remembered[name] = (
                decision.reasoning,
                decision.action,
                decision.outcome,
                decision.observations,
                [(skill, params) for skill, params, *_ in skills.asked],
            )
            requests[name] = server.requests[-1]

    assert remembered["openai"][:3] == (
        "Because.",
        f'transfer({{"to":"{AGENT.wallet_id}","amount":0.1}})',
        "Sent.",
    )
    assert all(each == remembered["openai"] for each in remembered.values())
    for name, request in requests.items():
        vendor = VENDORS[name]
        header, value = AUTH[name]
        assert request.vendor == name
        assert request.path == PATHS[name].format(model=vendor.default_model)
        assert request.headers[header] == value
        assert request.model == vendor.default_model
        assert request.system == system_prompt(AGENT, "localnet")
        assert request.turns == requests["openai"].turns
        assert "Current state:" in request.user
        # Without a grant no token may be transferred and no site paid, so neither is offered.
        names = (tool.name for tool in registry().tools())
        assert request.tool_names == tuple(
            name for name in names if name not in ("transfer_token", "pay_request")
        )
        assert most_tokens(request) == DEFAULT_MAX_TOKENS
        # litellm writes out Gemini 3's own default; the others are sent none.
        assert temperature(request) == (1.0 if name == "gemini" else None)


async def test_a_refusal_leaves_the_host_with_its_reason_its_words_and_its_usage() -> None:
    anthropic = VENDORS["anthropic"]
    answer = Answer(refusal="cyber", refused="I will not.", usage=(1_000, 3))
    async with vendor_server(default=answer) as server:
        with pytest.raises(ModelRefused) as caught:
            await complete(anthropic, server)
        error = caught.value
        assert str(error) == "Anthropic refused to answer this prompt (cyber)"
        assert (error.reason, error.said, error.may_cost) == ("cyber", "I will not.", True)
        assert error.usage is not None
        assert (error.usage.input_tokens, error.usage.output_tokens) == (1_000, 3)
        pieces = []
        with pytest.raises(ModelRefused, match="cyber"):  # noqa: PT012
            async for piece in PROVIDERS["anthropic"].stream(
                asked_of(anthropic), {}, lent(anthropic, server)
            ):
                pieces.append(piece)
        assert pieces == [error.usage]


@pytest.mark.parametrize("name", ["openai", "anthropic", "grok"])
async def test_tools_arrive_as_the_skills_declare_them(name: str) -> None:
    tools = registry().tools()
    async with vendor_server() as server:
        await complete(VENDORS[name], server, None, *tools)
        arrived = server.requests[-1].tools
    assert [(each.name, each.description) for each in arrived] == [
        (each.name, each.description) for each in tools
    ]
    assert [dict(each.parameters) for each in arrived] == [dict(each.parameters) for each in tools]


async def test_gemini_reads_in_words_what_its_schemas_cannot_say() -> None:
    async with vendor_server() as server:
        await complete(VENDORS["gemini"], server, None, *registry().tools())
        (transfer,) = [each for each in server.requests[-1].tools if each.name == "transfer"]
    amount = transfer.parameters["properties"]["amount"]
    assert "exclusiveMinimum" not in amount
    assert "(more than 0)" in amount["description"]


async def test_options_are_sent_in_each_vendors_own_fields() -> None:
    options = {"temperature": Decimal("0.5"), "maxTokens": 77, "reasoningEffort": "low"}
    bodies = {}
    async with vendor_server() as server:
        for name, vendor in VENDORS.items():
            valid = PROVIDERS[name].options.validate(options)
            await complete(vendor, server, options=valid)
            request = server.requests[-1]
            assert most_tokens(request) == 77
            bodies[name] = request.body
    # These models of OpenAI's and Anthropic's refuse a temperature while they reason.
    assert temperature_in(bodies["openai"]) is None
    assert bodies["openai"]["reasoning_effort"] == "low"
    assert bodies["anthropic"]["output_config"] == {"effort": "low"}
    assert (bodies["grok"]["temperature"], bodies["grok"]["reasoning_effort"]) == (0.5, "low")
    assert temperature_in(bodies["gemini"]["generationConfig"]) == 0.5
    assert bodies["gemini"]["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "low"


def temperature_in(body: Any) -> Any:
    return body.get("temperature")


@every_vendor
async def test_the_token_budget_lowers_what_the_options_allow(
    vendor: Vendor,
) -> None:
    async with vendor_server() as server:
        for budget, options, expected in ((50, {}, 50), (50, {"maxTokens": 20}, 20)):
            request = asked_of(vendor, max_output_tokens=budget)
            await PROVIDERS[vendor.name].complete(request, options, lent(vendor, server))
            assert most_tokens(server.requests[-1]) == expected


@every_vendor
async def test_text_is_the_answer_with_what_it_took(vendor: Vendor) -> None:
    async with vendor_server(default=Answer(text=SAID, usage=USAGE)) as server:
        completion = await complete(vendor, server)
    assert (completion.text, completion.tool_calls) == (SAID, ())
    assert completion.usage is not None
    assert (completion.usage.input_tokens, completion.usage.output_tokens) == USAGE
    assert completion.usage.cost_nanousd


@every_vendor
async def test_calls_keep_their_order_and_their_exact_numbers(vendor: Vendor) -> None:
    said = Answer(calls=(Call("swap", {"amount": 0.1, "n": 3}), Call("wait", {})))
    async with vendor_server(default=said) as server:
        completion = await complete(vendor, server, None, WAIT)
    assert completion.text is None
    assert completion.tool_calls == (
        ToolCall("swap", {"amount": Decimal("0.1"), "n": 3}),
        ToolCall("wait", {}),
    )
    assert type(completion.tool_calls[0].arguments["amount"]) is Decimal


@pytest.mark.parametrize("name", ["openai", "anthropic", "grok"])
async def test_arguments_that_are_no_json_stay_the_text_they_were(name: str) -> None:
    async with vendor_server() as server:
        completion = await complete(VENDORS[name], server, "malformed", WAIT)
    assert completion.tool_calls == (ToolCall("wait", '{"reason": "cut of'),)


async def test_geminis_malformed_call_is_an_answer_without_one() -> None:
    async with vendor_server() as server:
        completion = await complete(VENDORS["gemini"], server, "malformed", WAIT)
    assert (completion.text, completion.tool_calls) == (None, ())


@every_vendor
async def test_arguments_that_are_no_object_are_passed_on_for_the_agent_to_refuse(
    vendor: Vendor,
) -> None:
    async with vendor_server() as server:
        completion = await complete(vendor, server, "list_arguments", WAIT)
    assert completion.tool_calls == (ToolCall("wait", ["scripted", 2]),)


@every_vendor
async def test_an_empty_answer_is_a_completion_without_text(vendor: Vendor) -> None:
    async with vendor_server() as server:
        completion = await complete(vendor, server, "empty", WAIT)
    assert (completion.text, completion.tool_calls) == (None, ())


@every_vendor
async def test_a_stream_brings_the_text_in_pieces_and_then_its_usage(vendor: Vendor) -> None:
    async with vendor_server(default=Answer(text=SAID, usage=USAGE)) as server:
        pieces = await streamed(vendor, server)
        assert server.requests[-1].stream
    *texts, usage = pieces
    assert len(texts) > 1
    assert "".join(map(str, texts)) == SAID
    assert isinstance(usage, Usage)
    assert (usage.input_tokens, usage.output_tokens) == USAGE


@every_vendor
async def test_a_stream_leaves_tool_calls_out(vendor: Vendor) -> None:
    async with vendor_server() as server:
        pieces = await streamed(vendor, server, "two_calls")
    assert [piece for piece in pieces if isinstance(piece, str)] == []


async def test_a_conversation_keeps_its_turns() -> None:
    said = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    async with vendor_server() as server:
        for vendor in VENDORS.values():
            request = asked_of(vendor, messages=said)
            await PROVIDERS[vendor.name].complete(request, {}, lent(vendor, server))
            assert server.requests[-1].turns == (("user", "a"), ("assistant", "b"), ("user", "c"))


async def test_the_tools_of_a_request_are_the_same_after_calls_at_once() -> None:
    tools = registry().tools()
    before = repr(tools)
    async with vendor_server() as server:
        vendor = VENDORS["gemini"]
        await asyncio.gather(*(complete(vendor, server, None, *tools) for _ in range(5)))
        first, *others = [request.tools for request in server.requests]
    assert all(each == first for each in others)
    assert repr(tools) == before


async def test_a_local_server_needs_no_key_and_no_price() -> None:
    vendor = VENDORS["openai"]
    async with vendor_server() as server:
        context = ProviderContext(None, server.base_urls[vendor.base_url_env])
        request = asked_of(vendor, model="smollm2-135m-instruct-q4.gguf")
        completion = await PROVIDERS[vendor.name].complete(request, {}, context)
        assert server.requests[-1].headers["authorization"] == f"Bearer {call.NO_KEY}"
    assert completion.usage is not None
    assert completion.usage.cost_nanousd is None
