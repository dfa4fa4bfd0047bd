"""Think: ask the agent's provider what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from solward.agents.budget import NOTHING_USED, UNLIMITED, TokensUsed, output_allowance
from solward.agents.decisions import MemoryEntry
from solward.agents.model import Agent
from solward.agents.prompt import cycle_message, system_prompt
from solward.agents.provider_metrics import asking, count_usage
from solward.errors import ProviderError, SolwardError
from solward.provider import (
    Completion,
    CompletionRequest,
    Message,
    ToolCall,
    ToolDefinition,
    Usage,
)
from solward.telemetry import tracing
from solward.telemetry.scrub import scrub_text

NO_REASONING = "No explicit reasoning was given."
# Providers have deadlines of their own; this one holds for a plugin that has none.
THINK_TIMEOUT_S = 180.0
# Enough for any sensible reasoning; a runaway model must not fill the store.
MAX_TEXT = 10_000

Complete = Callable[[CompletionRequest], Awaitable[Completion]]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Thought:
    """What the model answered: its reasoning, the call it chose (None: wait), what it took."""

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
    complete: Complete,
    used: TokensUsed = NOTHING_USED,
    timeout_s: float = THINK_TIMEOUT_S,
) -> Thought:
    """One completion; the first tool call is the action.

    Args:
        memory: the latest entries, newest first; `MEMORY_GIVEN` at most.
        used: the tokens of the day, where the agent's budget counts them.

    Raises:
        ProviderError: no usable answer.
        TokenBudgetReached: the model was not asked.
    """
    request = CompletionRequest(
        model=agent.llm_model,
        system=system_prompt(agent, network),
        messages=(Message("user", cycle_message(observation, memory)),),
        tools=tools,
        observation=observation,
        strategy=agent.strategy,
    )
    completion = await ask(agent, complete, within_budget(agent, used, request), timeout_s)
    text = (completion.text or "").strip()
    return Thought(
        storable(text) or NO_REASONING,
        completion.tool_calls[0] if completion.tool_calls else None,
        completion.usage,
    )


def within_budget(agent: Agent, used: TokensUsed, request: CompletionRequest) -> CompletionRequest:
    """The request with what the agent's token budget leaves for its answer.

    Raises:
        TokenBudgetReached: there is no room for it.
    """
    if agent.llm_budget == UNLIMITED:
        return request
    return replace(request, max_output_tokens=output_allowance(agent.llm_budget, used, request))


async def ask(
    agent: Agent, complete: Complete, request: CompletionRequest, timeout_s: float
) -> Completion:
    """One call of the provider; whatever goes wrong inside it is a `ProviderError`."""
    name = agent.llm_provider
    try:
        with asking(name), tracing.span("provider.complete", provider=name, model=request.model):
            async with asyncio.timeout(timeout_s):
                completion = await complete(request)
    except ProviderError as error:
        raise without_secrets(error) from None
    except SolwardError:
        raise
    except TimeoutError:
        raise ProviderError(
            f"Provider {name!r} did not answer within {timeout_s:g} s", retryable=True
        ) from None
    except Exception as error:
        _log.exception("provider_failed", agent_id=agent.id, provider=name)
        raise ProviderError(f"Provider {name!r} failed with an internal error") from error
    if not isinstance(completion, Completion):
        raise ProviderError(f"Provider {name!r} did not answer with a Completion")
    count_usage(name, completion.usage)
    return completion


def without_secrets(error: ProviderError) -> ProviderError:
    """The same error; vendors quote keys, and what a provider says is remembered and shown."""
    error.args = (scrub_text(str(error)),)
    return error


def storable(text: str) -> str:
    """`text` cut to what the store keeps of one text, without what no database takes."""
    # A model's JSON can hold lone surrogates, which are not UTF-8; PostgreSQL refuses NUL.
    text = text[:MAX_TEXT].replace("\x00", "")
    return text.encode("utf-8", "replace").decode("utf-8")
