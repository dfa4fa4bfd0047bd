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
    return replace(provider_request, strategy="wait")


async def test_it_calls_the_skill_when_its_cycle_has_come(asked: CompletionRequest) -> None:
    completion = await provider.provider_complete(asked, {"every": 2})
    assert completion.tool_calls == (ToolCall("wait", {}),)


async def test_it_waits_until_then(asked: CompletionRequest) -> None:
    completion = await provider.provider_complete(asked, {"every": 5})
    assert completion.tool_calls == ()
    assert completion.text == "Waiting: 3 more cycles."


async def test_a_strategy_that_is_no_skill_is_refused(asked: CompletionRequest) -> None:
    with pytest.raises(ProviderError, match="not 'get rich'"):
        await provider.provider_complete(replace(asked, strategy="get rich"), {"every": 2})


async def test_in_a_chat_it_says_what_it_does(asked: CompletionRequest) -> None:
    chat = replace(asked, observation={}, tools=())
    completion = await provider.provider_complete(chat, {"every": 2})
    assert completion.text == "I call wait every 2 cycles."
