"""A model that says what a test tells it to, as an installed third-party provider plugin."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.registry.plugin_dists import Shelf

from solward.provider import Completion, CompletionRequest, ProviderContext, Usage

MODELS: dict[str, ScriptedModel] = {}
_numbers = itertools.count(1)

SOURCE = """
from contextlib import aclosing

from solward import ProviderSpec, hookimpl
from tests.agents.scripted_model import MODELS

MODEL = MODELS[{key!r}]


@hookimpl
def provider_spec():
    options = {{"type": "object", "properties": {{}}, "additionalProperties": False}}
    return ProviderSpec("scripted", "model-1", options, secret_env="XAI_API_KEY")


@hookimpl
async def provider_complete(request, options, context):
    return await MODEL.complete(request, context)


@hookimpl
async def provider_stream(request, options, context):
    async with aclosing(MODEL.stream(request, context)) as pieces:
        async for piece in pieces:
            yield piece
"""


async def _silence(request: CompletionRequest) -> AsyncIterator[str | Usage]:
    return
    yield


@dataclass
class ScriptedModel:
    """Answers with what `answer` returns, raises or awaits; streams what `pieces` yields."""

    answer: Callable[[CompletionRequest], Any] = lambda request: Completion("Waiting.")
    pieces: Callable[[CompletionRequest], AsyncIterator[str | Usage]] = _silence
    requests: list[CompletionRequest] = field(default_factory=list)
    lent: list[ProviderContext] = field(default_factory=list)

    async def complete(self, request: CompletionRequest, context: ProviderContext) -> Completion:
        self.requests.append(request)
        self.lent.append(context)
        answer = self.answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Completion)
        return answer

    async def stream(
        self, request: CompletionRequest, context: ProviderContext
    ) -> AsyncIterator[str | Usage]:
        self.requests.append(request)
        self.lent.append(context)
        source: Any = self.pieces(request)
        async with contextlib.aclosing(source):
            async for piece in source:
                yield piece


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[tuple[Shelf, ScriptedModel]]:
    """The provider `scripted` on a shelf of its own, where more plugins can be put."""
    folder.mkdir(parents=True)
    key, model, shelf = str(next(_numbers)), ScriptedModel(), Shelf(folder)
    MODELS[key] = model
    sys.path.insert(0, str(folder))
    try:
        source = SOURCE.format(key=key)
        shelf.install("scripted-model", {"scripted": source}, group="solward.providers")
        yield shelf, model
    finally:
        sys.path.remove(str(folder))
        del MODELS[key]
        for module in shelf.modules:
            sys.modules.pop(module, None)
