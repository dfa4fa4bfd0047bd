"""A provider with answers from a test's script, and a completion request like an agent's."""

from __future__ import annotations

import contextlib
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from solward.hookspecs import hookimpl
from solward.types.provider import (
    Completion,
    CompletionRequest,
    Message,
    ProviderContext,
    ProviderSpec,
    ToolDefinition,
    Usage,
)

Answer = Completion | BaseException

WAIT = ToolDefinition(
    "wait",
    "Do nothing this cycle.",
    {
        "type": "object",
        "properties": {"reason": {"type": "string", "maxLength": 1000}},
        "additionalProperties": False,
    },
)
TRANSFER = ToolDefinition(
    "transfer",
    "Send SOL from the wallet to another Solana address.",
    {
        "type": "object",
        "properties": {
            "to": {"type": "string", "minLength": 32, "maxLength": 44},
            "amount": {"type": "number", "exclusiveMinimum": 0},
            "memo": {"type": ["string", "null"], "default": None},
        },
        "required": ["to", "amount"],
        "additionalProperties": False,
    },
)


def default_answer(request: CompletionRequest) -> Completion:
    """Return `Waiting.` without tool calls: the default answer."""
    return Completion("Waiting.")


async def empty_stream(request: CompletionRequest) -> AsyncIterator[str | Usage]:
    """Yield nothing: the default stream."""
    return
    yield


@dataclass(eq=False)
class ScriptedProvider:
    """A provider plugin that returns its scripted answers, and then the results of `answer`.

    Attributes:
        answer: function, maybe async, for a `Completion` or an error to raise, after the script.
        pieces: yields the pieces of a streamed chat.
        requests: all requests, in order.
        lent: the context (secret and address) of each request.
        script: the remaining scripted answers; `say` appends to them.
        name: the provider's name, an agent's `llmProvider`.
    """

    answer: Callable[[CompletionRequest], Any] = default_answer
    pieces: Callable[[CompletionRequest], AsyncIterator[str | Usage]] = empty_stream
    requests: list[CompletionRequest] = field(default_factory=list)
    lent: list[ProviderContext] = field(default_factory=list)
    script: deque[Answer] = field(default_factory=deque)
    name: str = "scripted"

    def say(self, *answers: Answer) -> None:
        """Append answers to the script, one for each request; errors among them are raised."""
        self.script.extend(answers)

    async def complete(self, request: CompletionRequest, context: ProviderContext) -> Completion:
        """Return the next scripted answer, or the result of `answer` if none is left."""
        self.requests.append(request)
        self.lent.append(context)
        answer = self.script.popleft() if self.script else self.answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Completion)
        return answer

    async def stream(
        self, request: CompletionRequest, context: ProviderContext
    ) -> AsyncIterator[str | Usage]:
        """Yield the pieces of one chat."""
        self.requests.append(request)
        self.lent.append(context)
        source: Any = self.pieces(request)
        async with contextlib.aclosing(source):
            async for piece in source:
                yield piece

    @hookimpl
    def provider_spec(self) -> ProviderSpec:
        """See `solward.hookspecs.provider_spec`; it has no options and no secret."""
        options = {"type": "object", "properties": {}, "additionalProperties": False}
        return ProviderSpec(self.name, "scripted-1", options)

    @hookimpl
    async def provider_complete(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> Completion:
        """See `solward.hookspecs.provider_complete`."""
        return await self.complete(request, context)

    @hookimpl
    async def provider_stream(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> AsyncIterator[str | Usage]:
        """See `solward.hookspecs.provider_stream`."""
        source: Any = self.stream(request, context)
        async with contextlib.aclosing(source):
            async for piece in source:
                yield piece


def provider_request(**changes: Any) -> CompletionRequest:
    """Return a request like that of an agent's cycle; `changes` replace its fields by name."""
    fields: dict[str, Any] = {
        "model": "test-model",
        "system": "You manage a Solana wallet. Your strategy:\nalways do wait",
        "messages": (
            Message("user", "Cycle 1. SOL balance: 10."),
            Message("assistant", "Waiting."),
            Message("user", "Cycle 2. SOL balance: 10. What do you do?"),
        ),
        "tools": (WAIT, TRANSFER),
        "observation": {"cycle": 2, "solBalance": Decimal(10), "tokenBalances": []},
        "strategy": "always do wait",
        "max_output_tokens": 256,
    }
    return CompletionRequest(**(fields | changes))
