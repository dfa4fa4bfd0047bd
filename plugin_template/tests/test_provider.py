from __future__ import annotations

from dataclasses import replace

import pytest
from solward import CompletionRequest, ProviderError, ToolCall
from solward.testing import conformance

from solward_plugin_template import provider

test_it_conforms = conformance.provider_test(provider)


@pytest.fixture
def asked(provider_request: CompletionRequest) -> CompletionRequest:
    """What an agent asks in its second cycle, with a skill for its strategy."""
    return replace(provider_request, strategy="run wait")


async def test_it_calls_the_skill_when_its_cycle_has_come(asked: CompletionRequest) -> None:
    completion = await provider.provider_complete(asked, {"every": 2})
    assert completion.tool_calls == (ToolCall("wait", {}),)


async def test_it_waits_until_then(asked: CompletionRequest) -> None:
    completion = await provider.provider_complete(asked, {"every": 5})
    assert completion.tool_calls == ()
    assert completion.text == "Waiting: cycles until wait: 3."


async def test_a_strategy_without_a_skill_is_refused(asked: CompletionRequest) -> None:
    with pytest.raises(ProviderError, match="names no skill"):
        await provider.provider_complete(replace(asked, strategy="get rich"), {"every": 2})


async def test_in_a_chat_it_says_what_it_is(asked: CompletionRequest) -> None:
    chat = replace(asked, observation={}, tools=())
    completion = await provider.provider_complete(chat, {"every": 2})
    assert completion.text == "I am no language model. My strategy is: run wait"
