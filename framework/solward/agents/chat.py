"""Chat: a person writes to a running agent. Tool calls in the answer are not run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from solward.agents import provider_call
from solward.agents.agent import Agent
from solward.agents.decisions import MemoryEntry
from solward.agents.permissions import WITHOUT_GRANTS, Permissions
from solward.agents.prompt import chat_message, system_prompt
from solward.agents.provider_call import PROVIDER_TIMEOUT_S, Complete, Stream
from solward.types.provider import Completion, CompletionRequest, Message, Usage


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


async def reply(
    agent: Agent,
    request: CompletionRequest,
    provider: Complete,
    timeout_s: float = PROVIDER_TIMEOUT_S,
) -> Completion:
    """The model's answer, its text without surrounding space; raises `ProviderError`."""
    completion = await provider_call.complete(agent, provider, request, timeout_s)
    return Completion(_utf8((completion.text or "").strip()), usage=completion.usage)


async def stream_reply(
    agent: Agent,
    request: CompletionRequest,
    provider: Stream,
    timeout_s: float = PROVIDER_TIMEOUT_S,
) -> AsyncGenerator[str | Usage, None]:
    """The model's answer as it arrives, then its usage; raises `ProviderError`.

    Closing it closes the provider's generator.
    """
    async with aclosing(provider_call.stream(agent, provider, request, timeout_s)) as pieces:
        async for piece in pieces:
            yield _utf8(piece) if isinstance(piece, str) else piece


def _utf8(text: str) -> str:
    # A model's JSON can hold lone surrogates, which cannot be encoded in a response.
    return text.encode("utf-8", "replace").decode("utf-8")
