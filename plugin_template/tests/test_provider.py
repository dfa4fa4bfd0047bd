from __future__ import annotations

from dataclasses import replace

import pytest
from solward import CompletionRequest, ProviderError, ToolCall
from solward.testing import conformance

from solward_plugin_template import provider

test_it_conforms = conformance.provider_test(provider)


@pytest.fixture
def query(provider_request: CompletionRequest) -> CompletionRequest:
    """Return an agent's request in its second cycle, with a strategy that names a skill."""
    return replace(provider_request, strategy="run wait")


async def test_it_calls_the_skill_when_its_cycle_has_come(query: CompletionRequest) -> None:
    completion = await provider.provider_complete(query, {"every": 2})
    assert completion.tool_calls == (ToolCall("wait", {}),)


async def test_it_waits_until_then(query: CompletionRequest) -> None:
    completion = await provider.provider_complete(query, {"every": 5})
    assert completion.tool_calls == ()
    assert completion.text == "Waiting: cycles until wait: 3."


async def test_a_strategy_without_a_skill_is_refused(query: CompletionRequest) -> None:
    with pytest.raises(ProviderError, match="names no skill"):
        await provider.provider_complete(replace(query, strategy="get rich"), {"every": 2})


async def test_in_a_chat_it_says_what_it_is(query: CompletionRequest) -> None:
    chat = replace(query, observation={}, tools=())
    completion = await provider.provider_complete(chat, {"every": 2})
    assert completion.text == "I am no language model. My strategy is: run wait"
