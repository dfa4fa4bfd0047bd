"""Chat: a person writes to a running agent (contract 4.5). Tool calls are not run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import structlog

from solward.agents.budget import NOTHING_USED, TokensUsed
from solward.agents.model import Agent, MemoryEntry
from solward.agents.prompt import chat_message, system_prompt
from solward.agents.think import THINK_TIMEOUT_S, Complete, ask, within_budget
from solward.errors import ProviderError, SolwardError
from solward.provider import Completion, CompletionRequest, Message, Usage

Stream = Callable[[CompletionRequest], AsyncIterator[str | Usage]]

_log = structlog.get_logger(__name__)


def chat_request(
    agent: Agent,
    message: str,
    memory: Sequence[MemoryEntry],
    *,
    network: str,
    used: TokensUsed = NOTHING_USED,
) -> CompletionRequest:
    """The system prompt of a cycle, the agent's memory (newest first) and the message.

    Raises:
        TokenBudgetReached: the agent's token budget has no room for it.
    """
    request = CompletionRequest(
        model=agent.llm_model,
        system=system_prompt(agent, network),
        messages=(Message("user", chat_message(message, memory)),),
        strategy=agent.strategy,
    )
    return within_budget(agent, used, request)


async def reply(
    agent: Agent,
    request: CompletionRequest,
    complete: Complete,
    timeout_s: float = THINK_TIMEOUT_S,
) -> Completion:
    """The model's answer, its text without surrounding space; raises `ProviderError`."""
    completion = await ask(agent, complete, request, timeout_s)
    return Completion((completion.text or "").strip(), usage=completion.usage)


async def pieces(
    agent: Agent,
    request: CompletionRequest,
    stream: Stream,
    timeout_s: float = THINK_TIMEOUT_S,
) -> AsyncIterator[str | Usage]:
    """The model's answer as it comes, then what it took; raises `ProviderError`."""
    name = agent.llm_provider
    try:
        async with asyncio.timeout(timeout_s):
            async for piece in stream(request):
                if not isinstance(piece, str | Usage):
                    raise ProviderError(f"Provider {name!r} streamed something that is no text")
                yield piece
    except SolwardError:
        raise
    except TimeoutError:
        raise ProviderError(
            f"Provider {name!r} did not end its answer within {timeout_s:g} s", retryable=True
        ) from None
    except Exception as error:
        _log.exception("provider_failed", agent_id=agent.id, provider=name)
        raise ProviderError(f"Provider {name!r} failed with an internal error") from error
