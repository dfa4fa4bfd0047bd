"""Think: let the agent's provider decide what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solward.agents import provider_call
from solward.agents.agent import Agent
from solward.agents.budget import NOTHING_USED, TokensUsed, within_budget
from solward.agents.decisions import MemoryEntry
from solward.agents.prompt import cycle_message, system_prompt
from solward.agents.provider_call import PROVIDER_TIMEOUT_S, Complete
from solward.provider import CompletionRequest, Message, ToolCall, ToolDefinition, Usage

NO_REASONING = "No explicit reasoning was given."
# Enough for any sensible reasoning; a runaway model must not fill the store.
MAX_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class Thought:
    """The model's decision: its reasoning, the tool call it chose (None: wait), its token usage."""

    reasoning: str
    call: ToolCall | None
    usage: Usage | None = None


async def think(
    agent: Agent,
    observation: Mapping[str, Any],
    memory: Sequence[MemoryEntry],
    *,
    network: str,
    tools: tuple[ToolDefinition, ...],
    provider: Complete,
    used: TokensUsed = NOTHING_USED,
    timeout_s: float = PROVIDER_TIMEOUT_S,
) -> Thought:
    """One completion; the first tool call is the action.

    Args:
        memory: the latest entries, newest first; `MEMORY_GIVEN` at most.
        used: the last day's tokens, where the agent's budget limits them.

    Raises:
        ProviderError: no usable answer.
        TokenBudgetReached: no request was made.
    """
    request = CompletionRequest(
        model=agent.llm_model,
        system=system_prompt(agent, network),
        messages=(Message("user", cycle_message(observation, memory)),),
        tools=tools,
        observation=observation,
        strategy=agent.strategy,
    )
    request = within_budget(agent.llm_budget, used, request)
    completion = await provider_call.complete(agent, provider, request, timeout_s)
    text = (completion.text or "").strip()
    return Thought(
        storable(text) or NO_REASONING,
        completion.tool_calls[0] if completion.tool_calls else None,
        completion.usage,
    )


def storable(text: str) -> str:
    """`text` cut to `MAX_TEXT` characters, without characters that a database refuses."""
    # A model's JSON can hold lone surrogates, which are not UTF-8; PostgreSQL refuses NUL.
    text = text[:MAX_TEXT].replace("\x00", "")
    return text.encode("utf-8", "replace").decode("utf-8")
