"""A model that says what a test tells it to, as an installed third-party provider plugin.

The plugin shares objects with its test, so a service runs it, and what is on the same shelf, in the
test's own process.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.plugin_distributions import Shelf

from solward.plugins.discovery import Candidate
from solward.plugins.load import Found, in_process
from solward.plugins.problems import Problem
from solward.service import service
from solward.testing import ScriptedProvider

MODELS: dict[str, ScriptedProvider] = {}
_numbers = itertools.count(1)

SOURCE = """
from contextlib import aclosing

from solward import ProviderSpec, hookimpl
from tests.support.scripted_provider import MODELS

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


class _InThisProcess:
    """A `PluginSource` without hosts."""

    on_problem: Callable[[Problem], object]

    async def declared(self, candidates: Sequence[Candidate]) -> list[Found]:
        return in_process(candidates)

    def faults(self) -> list[Problem]:
        return []


@contextlib.asynccontextmanager
async def _in_this_process(*_: object, **__: object) -> AsyncIterator[_InThisProcess]:
    yield _InThisProcess()


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[tuple[Shelf, ScriptedProvider]]:
    """The provider `scripted` on a shelf of its own, where more plugins can be put; meanwhile
    services run third parties' plugins in this process."""
    folder.mkdir(parents=True)
    key, model, shelf = str(next(_numbers)), ScriptedProvider(), Shelf(folder)
    MODELS[key] = model
    sys.path.insert(0, str(folder))
    try:
        source = SOURCE.format(key=key)
        shelf.install("scripted-model", {"scripted": source}, group="solward.providers")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service, "plugin_hosts", _in_this_process)
            yield shelf, model
    finally:
        sys.path.remove(str(folder))
        del MODELS[key]
        for module in shelf.modules:
            sys.modules.pop(module, None)
