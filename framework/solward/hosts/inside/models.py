"""The tenant of model hosts: Solward's own language model providers, and litellm under them.

Every request of a provider goes through the service, on behalf of the call that is running; the
vendor's key is not here, a placeholder stands for it.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar

from solward import jsontext
from solward.errors import InvalidRequest
from solward.hosts.inside.http import install
from solward.hosts.inside.tenants import Setup
from solward.hosts.wire import methods, values
from solward.hosts.wire.channel import Handler, Incoming
from solward.provider import Completion, CompletionRequest, ModelPrice, ToolDefinition, Usage

MODULES: Final = "modules"
"""The option that names the providers: JSON of name -> module."""

T = TypeVar("T")
P = ParamSpec("P")

# A piece of 64 KiB, of characters of at most four bytes.
_PIECE_CHARACTERS: Final = 16_000
# Of all skills, for agents under different grants.
_KEPT_TOOLS: Final = 1_024

# The capability of the call whose code runs.
_cap: ContextVar[bytes | None] = ContextVar("model_call", default=None)


def models(setup: Setup) -> Mapping[str, Handler]:
    """Import the providers' modules, which import litellm at the first call."""
    # No program can be run here and no file be written: litellm, when it is imported, asks for a
    # compiler and for the folder of temporary files, and uses neither.
    os.environ["PATH"] = ""
    tempfile.tempdir = "/nonexistent"
    # It would open sockets, where httpx is the service's (`install`).
    os.environ["DISABLE_AIOHTTP_TRANSPORT"] = "True"
    asyncio.get_running_loop().set_default_executor(_AtOnce())
    named: Mapping[str, str] = jsontext.loads(setup.options[MODULES])
    tenant = Models({name: importlib.import_module(module) for name, module in named.items()})
    return {
        methods.PROVIDER_COMPLETE.name: tenant.complete,
        methods.PROVIDER_STREAM.name: tenant.stream,
        methods.PROVIDER_PRICE.name: tenant.price,
    }


class _AtOnce(ThreadPoolExecutor):
    """Runs what litellm gives to a thread where it is given, which is microseconds of each call:
    two changes of threads take longer."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As any executor's, done when it returns."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Models:
    """The hooks of the providers, each run as the call that it came with."""

    def __init__(self, modules: Mapping[str, Any]) -> None:
        self._modules = modules
        self._connected = False

    async def complete(self, incoming: Incoming) -> values.Completion:
        """One completion."""
        asked: methods.ProviderComplete = incoming.request
        answer = await self._module(asked.name, incoming).provider_complete(**_arguments(asked))
        return values.COMPLETION.to_wire(_of_type(answer, Completion))

    async def stream(self, incoming: Incoming) -> AsyncGenerator[methods.CompletionPiece, None]:
        """One completion in pieces."""
        asked: methods.ProviderComplete = incoming.request
        pieces: AsyncGenerator[Any, None] = self._module(asked.name, incoming).provider_stream(
            **_arguments(asked)
        )
        async with aclosing(pieces):
            async for piece in _sent(pieces):
                yield piece

    async def price(self, incoming: Incoming) -> methods.Price:
        """A model's price."""
        asked: methods.ProviderPrice = incoming.request
        hook = self._module(asked.name, incoming).provider_price
        price = await hook(model=asked.model, options=values.from_json(asked.options))
        if price is None:
            return methods.Price(None)
        return methods.Price(values.MODEL_PRICE.to_wire(_of_type(price, ModelPrice)))

    def _module(self, name: str, incoming: Incoming) -> Any:
        if not self._connected:
            # Before the first import of litellm, which makes clients at once.
            install(incoming.channel, _cap.get)
            self._connected = True
        # Each call is served in a task of its own, and so are its context variables.
        _cap.set(incoming.cap)
        module = self._modules.get(name)
        if module is None:
            raise InvalidRequest(f"no provider {name!r} runs in this host")
        return module


async def _sent(pieces: AsyncIterator[Any]) -> AsyncIterator[methods.CompletionPiece]:
    async for piece in pieces:
        if isinstance(piece, Usage):
            yield methods.CompletionPiece(usage=values.USAGE.to_wire(piece))
            continue
        text = _of_type(piece, str)
        for start in range(0, len(text), _PIECE_CHARACTERS):
            yield methods.CompletionPiece(text[start : start + _PIECE_CHARACTERS])


def _arguments(asked: methods.ProviderComplete) -> dict[str, Any]:
    request = asked.request
    return {
        "request": CompletionRequest(
            model=request.model,
            system=request.system,
            messages=tuple(map(values.MESSAGE.from_wire, request.messages)),
            tools=tuple(
                _tool(each.name, each.description, each.parameters) for each in request.tools
            ),
            max_output_tokens=request.max_output_tokens,
        ),
        "options": values.from_json(asked.options),
        "context": values.PROVIDER_CONTEXT.from_wire(asked.context),
    }


@functools.lru_cache(_KEPT_TOOLS)
def _tool(name: str, description: str, parameters: str) -> ToolDefinition:
    """A skill's definition; read once, as agents name the same ones in each cycle."""
    return ToolDefinition(name, description, values.from_json(parameters))


def _of_type(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__} of a provider, not {type(value).__name__}")
    return value
