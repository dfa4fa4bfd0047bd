"""What is sent to models: those of today's list, newer ones, and prompts that are cached."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest
from tests.support.models import VENDORS, WAIT, Waits, asked_of, lent
from tests.support.vendors.server import VendorServer, vendor_server
from tests.support.vendors.wire import Answer, CapturedRequest

from solward import Completion, ProviderError, Usage
from solward_plugins.llm import call
from solward_plugins.llm.library import library
from solward_plugins.llm.vendor import Vendor

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
openai, anthropic, grok = VENDORS["openai"], VENDORS["anthropic"], VENDORS["grok"]
ALL = {"temperature": Decimal("0.5"), "maxTokens": 77, "reasoningEffort": "low"}
FINE = Answer(text="Fine.")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    call._learned.clear()
    call._sent.clear()
    yield
    call._learned.clear()
    call._sent.clear()


async def ask(
    vendor: Vendor, server: VendorServer, model: str, options: Mapping[str, Any] = ALL
) -> Completion:
    asked = asked_of(vendor, WAIT, model=model)
    return await call.complete(vendor, asked, options, lent(vendor, server), Waits().policy())


async def sent(vendor: Vendor, model: str, options: Mapping[str, Any] = ALL) -> Mapping[str, Any]:
    async with vendor_server(default=FINE) as server:
        await ask(vendor, server, model, options)
        return server.requests[-1].body


@every_vendor
async def test_a_default_model_is_on_the_list_calls_tools_and_is_not_retired(
    vendor: Vendor,
) -> None:
    listed = (await library(vendor)).model_cost
    names = (f"{vendor.prefix}/{vendor.default_model}", vendor.default_model)
    [entry] = [
        listed[name]
        for name in names
        if name in listed and listed[name]["litellm_provider"] == vendor.prefix
    ]
    assert entry["mode"] == "chat"
    assert entry["supports_function_calling"]
    assert entry["input_cost_per_token"] > 0
    assert "deprecation_date" not in entry


@pytest.mark.parametrize("model", ["gpt-7", "gpt-7-nova", "gpt-12.1-mini", "o5", "o7-mini"])
async def test_a_newer_model_of_openais_gets_what_its_reasoning_models_take(model: str) -> None:
    assert model not in (await library(openai)).model_cost
    body = await sent(openai, model)
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (77, "low")
    assert not {"max_tokens", "temperature"} & body.keys()


@pytest.mark.parametrize("model", ["gpt-4.1", "llama-3.2-8b", "gptoss", "olmo-2"])
async def test_other_models_of_its_protocol_get_what_they_always_took(model: str) -> None:
    body = await sent(openai, model, {"temperature": Decimal("0.5"), "maxTokens": 77})
    assert (body["max_tokens"], body["temperature"]) == (77, 0.5)


async def test_a_newer_model_of_xais_gets_its_effort() -> None:
    body = await sent(grok, "grok-9")
    assert (body["reasoning_effort"], body["max_tokens"], body["temperature"]) == ("low", 77, 0.5)


async def test_a_newer_model_of_anthropics_thinks_without_a_temperature() -> None:
    body = await sent(anthropic, "claude-opus-9")
    assert body["output_config"] == {"effort": "low"}
    assert "temperature" not in body
    unthinking = await sent(anthropic, "claude-opus-9", {"temperature": Decimal("0.5")})
    assert unthinking["temperature"] == 0.5


def refusing(*rules: tuple[str, str]) -> Any:
    """A vendor that refuses a body with a field, by its text; the first rule that fits."""

    def script(request: CapturedRequest) -> Answer:
        for field, message in rules:
            if re.search(f'"{field}"', repr(request.body).replace("'", '"')):
                return Answer(status=400, message=message)
        return FINE

    return script


TOKENS = (
    "max_tokens",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
    " 'max_completion_tokens' instead.",
)
WARMTH = (
    "temperature",
    "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1)"
    " value is supported.",
)
EFFORT = ("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort")
CACHE = ("cache_control", "system.0.cache_control: Extra inputs are not permitted")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_refused_parameter_is_changed_sent_once_more_and_remembered(streamed: bool) -> None:
    asked = asked_of(openai, model="nova-1")

    async def answer(server: VendorServer) -> None:
        given = (openai, asked, ALL, lent(openai, server), Waits().policy())
        if not streamed:
            assert (await call.complete(*given)).text == "Fine."
            return
        pieces = [each async for each in call.stream(*given)]
        assert "".join(each for each in pieces if isinstance(each, str)) == "Fine."

    async with vendor_server(script=refusing(TOKENS, WARMTH, EFFORT)) as server:
        await answer(server)
        assert server.served["openai"] == 4
        last = server.requests[-1].body
        assert last["max_completion_tokens"] == 77
        assert not {"max_tokens", "temperature", "reasoning_effort"} & last.keys()
        await answer(server)
        assert server.served["openai"] == 5


async def test_what_is_remembered_is_of_one_model_at_one_address() -> None:
    async with vendor_server(script=refusing(WARMTH)) as server:
        await ask(openai, server, "nova-1")
        assert server.served["openai"] == 2
        await ask(openai, server, "nova-2")
        assert server.served["openai"] == 4
    async with vendor_server(default=FINE) as other:
        await ask(openai, other, "nova-1")
        assert other.requests[-1].body["temperature"] == 0.5


async def test_a_server_that_refuses_both_names_of_a_limit_is_told_and_not_asked_for_ever() -> None:
    both = refusing(TOKENS, ("max_completion_tokens", "Unknown field max_completion_tokens"))
    async with vendor_server(script=both) as server:
        with pytest.raises(ProviderError, match=r"refused the request \(HTTP 400"):
            await ask(openai, server, "nova-1")
        assert server.served["openai"] == 3


async def test_an_older_server_gets_a_newer_models_limit_by_its_old_name() -> None:
    old = refusing(("max_completion_tokens", "Unrecognized field: max_completion_tokens"))
    async with vendor_server(script=old) as server:
        assert (await ask(openai, server, "gpt-7")).text == "Fine."
        assert server.requests[-1].body["max_tokens"] == 77


async def test_another_refusal_is_not_sent_again() -> None:
    for status, message in ((400, "messages: too long"), (403, "temperature")):
        refusal = Answer(status=status, message=message)
        async with vendor_server(default=refusal) as server:
            with pytest.raises(ProviderError):
                await ask(openai, server, "nova-1")
            assert server.served["openai"] == 1


# Prompt caching.


def marks(body: Mapping[str, Any]) -> list[str]:
    """Where a body of Anthropic's has `cache_control`."""
    system = body["system"] if isinstance(body["system"], list) else []
    turns = [
        part for turn in body["messages"] for part in turn["content"] if isinstance(part, dict)
    ]
    return [
        *("system" for part in system if part.get("cache_control") == {"type": "ephemeral"}),
        *("tool" for tool in body.get("tools", ()) if "cache_control" in tool),
        *("turn" for part in turns if "cache_control" in part),
    ]


async def test_anthropic_caches_tools_and_system_prompt_that_were_sent_before() -> None:
    async with vendor_server(default=FINE) as server:
        bodies = []
        for _ in range(3):
            await ask(anthropic, server, anthropic.default_model, {})
            bodies.append(server.requests[-1].body)
            # Marked or not, it is the same prompt.
            assert server.requests[-1].system == "Be brief."
            assert server.requests[-1].tool_names == ("wait",)
    assert [marks(each) for each in bodies] == [[], ["system"], ["system"]]


async def test_other_vendors_are_sent_no_marks() -> None:
    async with vendor_server(default=FINE) as server:
        for name in ("openai", "grok", "gemini"):
            for _ in range(2):
                await ask(VENDORS[name], server, VENDORS[name].default_model, {})
            assert "cache_control" not in repr(server.requests[-1].body)


def test_a_prompt_is_marked_only_where_its_cache_would_be_read() -> None:
    def arguments(**changes: Any) -> dict[str, Any]:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        return {"model": "anthropic/m", "messages": messages, "tools": [{"name": "a"}]} | changes

    def is_marked(now_s: float, **changes: Any) -> bool:
        return "cache_control" in repr(call.with_cache(arguments(**changes), now_s))

    assert [is_marked(at) for at in (0, 299, 598, 898, 1_198.0)] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert not is_marked(1_199, model="anthropic/n")
    assert not is_marked(1_199, tools=[{"name": "b"}])
    assert is_marked(1_200, messages=[arguments()["messages"][0], {"role": "user", "content": "?"}])


async def test_a_server_that_knows_no_caching_is_asked_without() -> None:
    async with vendor_server(script=refusing(CACHE)) as server:
        for _ in range(3):
            await ask(anthropic, server, anthropic.default_model, {})
        assert server.served["anthropic"] == 4
        assert server.requests[-1].system == "Be brief."


@pytest.mark.parametrize("streamed", [False, True])
async def test_cached_tokens_are_counted_at_their_own_prices(streamed: bool) -> None:
    rates = (await library(anthropic)).model_cost[anthropic.default_model]
    fresh, write, read, said = (
        Decimal(repr(rates[name]))
        for name in (
            "input_cost_per_token",
            "cache_creation_input_token_cost",
            "cache_read_input_token_cost",
            "output_cost_per_token",
        )
    )
    # A write costs more than a fresh token, and a read less.
    assert read < fresh < write
    answer = Answer(text="Fine.", usage=(9_000, 40), cached=(2_000, 6_000))
    async with vendor_server(default=answer) as server:
        given = (anthropic, asked_of(anthropic), {}, lent(anthropic, server))
        if streamed:
            [usage] = [each async for each in call.stream(*given) if isinstance(each, Usage)]
        else:
            usage = (await call.complete(*given)).usage or Usage()
    cost = 1_000 * fresh + 2_000 * write + 6_000 * read + 40 * said
    assert usage == Usage(9_000, 40, int(cost * 10**9))
    # And no more than was reserved beforehand.
    price = await call.price(anthropic, anthropic.default_model, {})
    assert price is not None
    assert usage.cost_nanousd is not None
    assert usage.cost_nanousd < price.cost(9_000, 40)
    assert price.input_nanousd == int(write * 10**15)


@pytest.mark.parametrize("name", ["openai", "grok", "gemini"])
async def test_tokens_that_a_vendor_cached_by_itself_cost_their_own_price(name: str) -> None:
    vendor = VENDORS[name]
    listed = (await library(vendor)).model_cost
    rates = listed.get(f"{vendor.prefix}/{vendor.default_model}") or listed[vendor.default_model]
    fresh, read, said = (
        Decimal(repr(rates[each]))
        for each in ("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token")
    )
    answer = Answer(text="Fine.", usage=(9_000, 40), cached=(0, 6_000))
    async with vendor_server(default=answer) as server:
        usage = (await call.complete(vendor, asked_of(vendor), {}, lent(vendor, server))).usage
    cost = 3_000 * fresh + 6_000 * read + 40 * said
    assert usage == Usage(9_000, 40, int(cost * 10**9))
