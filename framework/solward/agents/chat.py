"""Chat: a person writes to a running agent. Tool calls are not run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import structlog

from solward.agents.budget import NOTHING_USED, TokensUsed
from solward.agents.decisions import MemoryEntry
from solward.agents.model import Agent
from solward.agents.prompt import chat_message, system_prompt
from solward.agents.provider_metrics import asking, count_usage
from solward.agents.think import THINK_TIMEOUT_S, Complete, ask, within_budget, without_secrets
from solward.errors import ProviderError, SolwardError
from solward.provider import Completion, CompletionRequest, Message, Usage

Stream = Callable[[CompletionRequest], AsyncIterator[str | Usage]]

_END = object()

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
    return Completion(_utf8((completion.text or "").strip()), usage=completion.usage)


async def pieces(
    agent: Agent,
    request: CompletionRequest,
    stream: Stream,
    timeout_s: float = THINK_TIMEOUT_S,
) -> AsyncGenerator[str | Usage, None]:
    """The model's answer as it comes, then what it took; raises `ProviderError`.

    Closing it closes what the provider generates.
    """
    name = agent.llm_provider
    source = stream(request)
    deadline = asyncio.get_running_loop().time() + timeout_s
    try:
        with asking(name):
            while True:
                # Only the provider is waited for under the deadline: a timeout around the `yield`
                # would cancel whoever reads slowly.
                async with asyncio.timeout_at(deadline):
                    piece = await anext(source, _END)
                if piece is _END:
                    return
                if not isinstance(piece, str | Usage):
                    raise ProviderError(f"Provider {name!r} streamed something that is no text")
                if isinstance(piece, Usage):
                    count_usage(name, piece)
                    yield piece
                else:
                    yield _utf8(piece)
    except ProviderError as error:
        raise without_secrets(error) from None
    except SolwardError:
        raise
    except TimeoutError:
        raise ProviderError(
            f"Provider {name!r} did not end its answer within {timeout_s:g} s", retryable=True
        ) from None
    except Exception as error:
        _log.exception("provider_failed", agent_id=agent.id, provider=name)
        raise ProviderError(f"Provider {name!r} failed with an internal error") from error
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


def _utf8(text: str) -> str:
    # A model's JSON can hold lone surrogates, of which no answer can be made.
    return text.encode("utf-8", "replace").decode("utf-8")
