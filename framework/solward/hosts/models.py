"""Model hosts: Solward's own language model providers in plugin hosts, away from keys and wallets.

litellm, which the providers stand on, is the largest part of all that is installed, and nobody here
wrote it. In its hosts it has no key, no socket and no file to write: the service makes each request
and puts the vendor's key into it on the way out.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from solward import jsontext
from solward.errors import ProviderError, SkillError
from solward.hosts.egress import Egress, EgressCall, Limits
from solward.hosts.host import Host, HostConfig, Patience, as_provider
from solward.hosts.inside.models import MODULES
from solward.hosts.supervisor import Hosts
from solward.hosts.wire import methods, values
from solward.hosts.wire.channel import Incoming
from solward.hosts.wire.frames import HostileFrame
from solward.provider import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderSpec,
    ToolDefinition,
    Usage,
)

NAME: Final = "litellm"
"""The hosts' name; who runs them where nothing can be confined names it."""

TENANT: Final = "solward.hosts.inside.models:models"

# Measured with litellm 1.106.2: 0.95 GB of addresses and 0.4 GB in use after all four vendors, 1.5
# GB of addresses with 200 calls at once.
_ADDRESSES: Final = 3 << 30
_RESIDENT: Final = 1 << 30
# So many calls wait for their vendors in a host at a time; others wait for them.
_CALLS: Final = 200
# litellm takes milliseconds of a call, and its import seconds of which some block the host.
_PATIENCE: Final = Patience(answer_s=30.0)
# Calls whose requests share connections. A pool's work for a request grows with the square of its
# connections (httpcore 1.0), so there are many small pools.
_LANE: Final = 8
_EGRESS: Final = Limits(at_once=_LANE, requests=16)
_CAPABILITY_BYTES: Final = 16
_KEPT_PRICES: Final = 1_024
_KEPT_TOOLS: Final = 1_024


class ModelHosts:
    """The hosts of the model providers, started by the first call and again after their end.

    Args:
        count: processes, of which each call takes the least busy.
        unconfined: as of `Hosts`.
        folder: where litellm is, if not beside Solward.
    """

    def __init__(
        self, count: int, *, unconfined: Collection[str] = (), folder: str | None = None
    ) -> None:
        self._count = count
        self._folder = folder
        self._hosts = Hosts(unconfined=unconfined, patience=_PATIENCE)
        self._egress = Egress(_EGRESS)
        self._modules: dict[str, str] = {}
        self._opening: asyncio.Task[None] | None = None
        self._models: list[_Model] = []
        self._prices: dict[tuple[str, str, str], ModelPrice | None] = {}
        self._tools = _Tools()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts, running or not; none before the first call."""
        return tuple(model.host for model in self._models)

    def hooks(self, spec: ProviderSpec, module: str) -> Mapping[str, Callable[..., Any]]:
        """The provider's hooks, each as a call into a host; before the first call is made.

        Args:
            module: has the hooks; one of Solward's own.
        """
        self._modules[spec.name] = module
        provider = _Provider(self, spec)
        return {
            "provider_complete": provider.complete,
            "provider_stream": provider.stream,
            "provider_price": provider.price,
        }

    async def close(self) -> None:
        """End the hosts, their calls with them."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
            await self._hosts.close()
        await self._egress.close()

    async def _least_busy(self) -> _Model:
        if self._opening is None or (self._opening.done() and not self._models):
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)
        # One that ended too often has no calls, and would get all.
        return min(self._models, key=lambda model: (model.host.disabled is not None, model.calls))

    async def _open(self) -> None:
        await self._hosts.open()
        for number in range(self._count):
            model = _Model(number)
            config = HostConfig(
                name=NAME,
                tenant=TENANT,
                folder=self._folder,
                modules=tuple(self._modules.values()),
                memory_bytes=_ADDRESSES,
                resident_bytes=_RESIDENT,
                options={MODULES: jsontext.dumps(self._modules)},
            )
            handler = self._egress.handler(model.call_of)
            model.host = self._hosts.add(config, {methods.HTTP_REQUEST.name: handler})
            self._models.append(model)


@dataclass(slots=True)
class _Model:
    """A host, its calls, and those of them that run by their capabilities."""

    number: int
    host: Host = field(init=False)
    calls: int = 0
    lanes: list[int] = field(default_factory=lambda: [0] * (_CALLS // _LANE))
    running: dict[bytes, EgressCall] = field(default_factory=dict)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CALLS))

    def call_of(self, incoming: Incoming) -> EgressCall:
        """The running call on whose behalf the host asks; raises `SkillError` where it ended."""
        call = self.running.get(incoming.cap or b"")
        if call is None:
            raise SkillError("call_ended", "The call that this request was made for has ended")
        return call

    @asynccontextmanager
    async def lent(self, call: EgressCall) -> AsyncIterator[bytes]:
        """A capability of the call, until the block ends; waits for its turn."""
        cap = secrets.token_bytes(_CAPABILITY_BYTES)
        self.calls += 1
        try:
            async with self.room:
                # The first with room, so that few connections are opened.
                lane = next(at for at, calls in enumerate(self.lanes) if calls < _LANE)
                self.lanes[lane] += 1
                call.tenant = f"{NAME}-{self.number}-{lane}"
                self.running[cap] = call
                try:
                    yield cap
                finally:
                    self.lanes[lane] -= 1
        finally:
            call.end()
            self.running.pop(cap, None)
            self.calls -= 1

    def read(self, convert: Callable[[Any], Any], answer: Any) -> Any:
        """An answer as Solward has it; one that is nonsense ends the host."""
        try:
            return convert(answer)
        except values.Unreadable as error:
            if self.host.life is not None:
                self.host.life.channel.end(HostileFrame(str(error)))
            text = "The plugin host answered with what is no such value"
            raise ProviderError(text, may_cost=True) from None


@dataclass(frozen=True, slots=True)
class _Provider:
    """One provider's hooks."""

    hosts: ModelHosts
    spec: ProviderSpec

    async def complete(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> Completion:
        """One completion; raises `ProviderError`."""
        model = await self.hosts._least_busy()
        call = self._call(context)
        asked = self._asked(call, request, options, context)
        with as_provider():
            async with model.lent(call) as cap:
                answer = await model.host.call(methods.PROVIDER_COMPLETE, asked, cap=cap)
        completion: Completion = model.read(values.COMPLETION.from_wire, answer)
        return completion

    async def stream(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> AsyncGenerator[str | Usage, None]:
        """One completion in pieces; raises `ProviderError`."""
        model = await self.hosts._least_busy()
        call = self._call(context)
        asked = self._asked(call, request, options, context)
        async with model.lent(call) as cap:
            pieces = model.host.stream(methods.PROVIDER_STREAM, asked, cap=cap)
            async with aclosing(pieces):
                while True:
                    with as_provider():
                        piece = await anext(pieces, None)
                    if piece is None:
                        return
                    if piece.text:
                        yield piece.text
                    if piece.usage is not None:
                        yield model.read(values.USAGE.from_wire, piece.usage)

    async def price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """A model's price, asked once."""
        prices = self.hosts._prices
        known = (self.spec.name, model, values.to_json(options))
        if known not in prices:
            host = await self.hosts._least_busy()
            asked = methods.ProviderPrice(*known)
            with as_provider():
                async with host.lent(self._call(ProviderContext())) as cap:
                    answer = await host.host.call(methods.PROVIDER_PRICE, asked, cap=cap)
            found = None if answer.price is None else values.MODEL_PRICE.from_wire(answer.price)
            if len(prices) >= _KEPT_PRICES:
                prices.clear()
            prices[known] = found
        return prices[known]

    def _call(self, context: ProviderContext) -> EgressCall:
        given = self.spec.secret_env is not None and context.secret is not None
        return EgressCall(
            tenant=NAME,
            plugin=self.spec.name,
            manifest=self.spec.manifest,
            configured=() if context.base_url is None else (context.base_url,),
            values={str(self.spec.secret_env): str(context.secret)} if given else {},
        )

    def _asked(
        self,
        call: EgressCall,
        request: CompletionRequest,
        options: Mapping[str, Any],
        context: ProviderContext,
    ) -> methods.ProviderComplete:
        """The request as the host gets it: the key replaced, and without the observation, which
        only providers read that are no language models."""
        env = self.spec.secret_env
        placeholder = None if env is None else call.placeholder(env)
        bare = replace(request, tools=(), observation={}, strategy="")
        asked = values.COMPLETION_REQUEST.to_wire(bare)
        asked.tools = self.hosts._tools.wire(request.tools)
        lent = ProviderContext(placeholder, context.base_url)
        return methods.ProviderComplete(
            self.spec.name, asked, values.to_json(options), values.PROVIDER_CONTEXT.to_wire(lent)
        )


class _Tools:
    """Definitions of tools as they travel, each written once: agents send the same ones each time.

    By identity, which holds as the definition is kept beside what was written of it.
    """

    def __init__(self) -> None:
        self._written: dict[int, tuple[ToolDefinition, values.ToolDefinition]] = {}

    def wire(self, tools: tuple[ToolDefinition, ...]) -> tuple[values.ToolDefinition, ...]:
        """The definitions, in their order."""
        if len(self._written) > _KEPT_TOOLS:
            self._written.clear()
        return tuple(map(self._one, tools))

    def _one(self, tool: ToolDefinition) -> values.ToolDefinition:
        found = self._written.get(id(tool))
        if found is None:
            found = self._written[id(tool)] = (tool, values.TOOL_DEFINITION.to_wire(tool))
        return found[1]
