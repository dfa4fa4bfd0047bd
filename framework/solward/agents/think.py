"""Think and chat: the agent's provider decides what to do, or answers a person who writes to it.

Tool calls in the answer to a person are not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solward.agents import provider_call
from solward.agents.agent import Agent, MemoryEntry
from solward.agents.model_budget import ModelBudget, Reserved
from solward.agents.permissions import WITHOUT_GRANTS, Permissions
from solward.agents.prompt import chat_message, cycle_message, system_prompt
from solward.agents.provider_call import Complete
from solward.support.clean_text import cleaned
from solward.types.errors import ModelRefused, ProviderError
from solward.types.provider import CompletionRequest, Message, ToolCall, ToolDefinition, Usage

NO_REASONING = "No explicit reasoning was given."
# Enough for any sensible reasoning; a runaway model must not fill the store.
MAX_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class Thought:
    """The model's decision.

    Attributes:
        call: the tool call it chose; None is to wait.
        reserved: of the model's budget, to be settled to `usage`.
        failure: the model gave no answer; the reasoning is what it said to that.
    """

    reasoning: str
    call: ToolCall | None
    usage: Usage | None = None
    reserved: Reserved | None = None
    failure: ProviderError | None = None


async def think(
    agent: Agent,
    observation: Mapping[str, Any],
    memory: Sequence[MemoryEntry],
    *,
    network: str,
    tools: tuple[ToolDefinition, ...],
    provider: Complete,
    budget: ModelBudget,
    permissions: Permissions = WITHOUT_GRANTS,
) -> Thought:
    """One completion; the first tool call is the action.

    Args:
        memory: the latest entries, newest first; `MEMORY_GIVEN` at most.
        budget: where the model's tokens are reserved before it is asked.
        permissions: for the prompt, and for which of the tools are offered.

    Raises:
        TokenBudgetReached: no request was made.
    """
    request = CompletionRequest(
        model=agent.llm_model,
        system=system_prompt(agent, network, permissions),
        messages=(Message("user", cycle_message(observation, memory)),),
        tools=permissions.offered(tools),
        observation=observation,
        strategy=agent.strategy,
    )
    request, reserved = await budget.reserve(agent, request)
    try:
        completion = await provider_call.complete(agent, provider, request)
    except ProviderError as error:
        if error.usage is None:
            await budget.failed(reserved, error)
            reserved = None
        said = error.said.strip() if isinstance(error, ModelRefused) else ""
        return Thought(storable(said) or NO_REASONING, None, error.usage, reserved, error)
    text = (completion.text or "").strip()
    return Thought(
        storable(text) or NO_REASONING,
        completion.tool_calls[0] if completion.tool_calls else None,
        completion.usage,
        reserved,
    )


def storable(text: str) -> str:
    """`text` cut to `MAX_TEXT` characters, without characters that a database refuses."""
    return cleaned(text[:MAX_TEXT])


def chat_request(
    agent: Agent,
    message: str,
    memory: Sequence[MemoryEntry],
    *,
    network: str,
    permissions: Permissions = WITHOUT_GRANTS,
) -> CompletionRequest:
    """The system prompt of a cycle, the agent's memory (newest first) and the message."""
    return CompletionRequest(
        model=agent.llm_model,
        system=system_prompt(agent, network, permissions),
        messages=(Message("user", chat_message(message, memory)),),
        strategy=agent.strategy,
    )
