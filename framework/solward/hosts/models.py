"""Language model providers in hosts: third parties' in plugin hosts, Solward's own in model hosts.

Solward's own use litellm, the largest third-party library here. In a model host it has no key, no
socket and no file to write: the service makes each request, and adds the vendor's key to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from solward.hosts.capabilities import Capabilities, RunningCall, TenantHost
from solward.hosts.egress import Egress, EgressCall
from solward.hosts.egress.connections import Limits
from solward.hosts.forking import SharedZygote
from solward.hosts.host import Host, HostConfig, SupervisionLimits
from solward.hosts.inside.plugins import ENTRY_POINTS
from solward.hosts.supervisor import Hosts
from solward.hosts.wire import methods
from solward.hosts.wire.values import to_json
from solward.plugins.folders import models
from solward.plugins.hooks import PROVIDERS
from solward.support import jsontext
from solward.support.tasks import end
from solward.types.errors import ProviderError, SkillError, SolwardError
from solward.types.provider import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderSpec,
    Usage,
)

Lend = Callable[[], AbstractAsyncContextManager[TenantHost]]
"""Yields the host for one call, until the block ends; may wait until a host is free."""


@dataclass(frozen=True, slots=True)
class HostedProvider:
    """A provider whose hooks are calls into a host.

    Attributes:
        whole: limits of requests for an answer that does not stream, instead of those of all calls.
    """

    spec: ProviderSpec
    lend: Lend
    whole: Limits | None = None

    def hooks(self) -> dict[str, Callable[..., Any]]:
        """Return the hooks by name, called as those of a provider in this process."""
        return {
            "provider_complete": self.complete,
            "provider_stream": self.stream,
            "provider_price": self.price,
        }

    async def complete(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> Completion:
        """Return one completion.

        Raises:
            ProviderError, SkillError: the latter if a request was refused.
        """
        async with self.lend() as tenant:
            call, running = self._completion_call(tenant, request, options, context)
            assert running.egress is not None
            running.egress.limits = self.whole
            with _provider_errors():
                completion: Completion = await tenant.call(methods.PROVIDER_COMPLETE, call, running)
            return completion

    async def stream(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> AsyncGenerator[str | Usage, None]:
        """Yield one completion in pieces; raises the errors of `complete`."""
        async with self.lend() as tenant:
            call, running = self._completion_call(tenant, request, options, context)
            stream = tenant.stream(methods.PROVIDER_STREAM, call, running)
            async with aclosing(stream) as pieces:
                while True:
                    with _provider_errors():
                        piece: str | Usage | None = await anext(pieces, None)
                    if piece is None:
                        return
                    if piece != "":
                        yield piece

    async def price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """Return a model's price; raises the errors of `complete`."""
        call = {"name": self.spec.name, "model": model, "options": options}
        async with self.lend() as tenant:
            running = self._new_call(tenant, ProviderContext())
            with _provider_errors():
                price: ModelPrice | None = await tenant.call(methods.PROVIDER_PRICE, call, running)
            return price

    def _new_call(self, tenant: TenantHost, context: ProviderContext) -> RunningCall:
        variable, secret = self.spec.secret_env, context.secret
        egress = EgressCall(
            tenant=tenant.connections,
            plugin=self.spec.name,
            manifest=self.spec.manifest,
            configured=() if context.base_url is None else (context.base_url,),
            values={} if variable is None or secret is None else {variable: secret},
            key=variable,
        )
        return RunningCall(self.spec.name, manifest=self.spec.manifest, egress=egress)

    def _completion_call(
        self,
        tenant: TenantHost,
        request: CompletionRequest,
        options: Mapping[str, Any],
        context: ProviderContext,
    ) -> tuple[dict[str, Any], RunningCall]:
        running, variable = self._new_call(tenant, context), self.spec.secret_env
        assert running.egress is not None
        # The host gets a placeholder; the service puts the key into requests that may carry it.
        lent = None if variable is None else running.egress.placeholder(variable)
        call = {
            "name": self.spec.name,
            "request": request,
            "options": options,
            "secret": lent,
            "base_url": context.base_url,
        }
        return call, running


@contextmanager
def _provider_errors() -> Iterator[None]:
    """Let errors pass that a provider may raise, and turn all others into `ProviderError`."""
    try:
        yield
    except (ProviderError, SkillError):
        raise
    except SolwardError as error:
        raise ProviderError(f"The provider failed: {error}") from None


NAME: Final = "litellm"
"""The hosts' name, which SOLWARD_PLUGINS_UNCONFINED must contain to run them unconfined."""

TENANT: Final = "solward.hosts.inside.plugins:models"

# Measured with litellm 1.106.2: 0.2 GB in use after all four vendors; 0.95 GB of addresses while it
# counted tokens too, 1.5 GB with 200 calls at once.
_ADDRESSES: Final = 3 << 30
_RESIDENT: Final = 1 << 30
# Calls that a host makes at a time; more wait.
_CALLS: Final = 200
# litellm's import takes seconds and blocks the host: with a higher nice value the first call took
# two minutes on a busy machine. Every later call takes milliseconds.
_SUPERVISION: Final = SupervisionLimits(answer_s=30.0, nice=5)
# Measured under a load of 20 from other work: 12 calls a second at nice 10, with the service's
# loop late by 10 ms (p99), and 24 at nice 5, late by 31 ms. Under a load of 14: 9 at nice 15.
_SETTLED_NICE: Final = 10
# Calls that share a pool of connections. A pool's work for a request grows with the square of its
# connections (httpcore 1.0), so there are many small pools.
_LANE: Final = 8
# A host reads the answers to all agents. 30 MB of JSON used up its memory, and 8 MB of empty
# objects took half a minute. 128,000 tokens are about 1 MiB; in a stream, a token is 300 bytes.
_EGRESS: Final = Limits(at_once=_LANE, requests=16, response_bytes=8 << 20, encoded=False)
_WHOLE: Final = replace(_EGRESS, response_bytes=2 << 20)
_KEPT_PRICES: Final = 1_024
# The import begins after the service's own start, which it would slow on two processors.
_WARM_AFTER_S: Final = 1.0
_log = structlog.get_logger(__name__)


class ModelHosts:
    """The hosts of the model providers, started by `warm` or a call, and again after their end.

    Args:
        count: number of processes; each call uses the least busy.
        root: folder in which `solward models install` unpacks litellm; read by the first call.
        unconfined, zygote: see `Hosts`.
    """

    def __init__(
        self,
        count: int,
        root: Path,
        *,
        unconfined: Collection[str] = (),
        zygote: SharedZygote | None = None,
    ) -> None:
        self._count = count
        self._root = root
        # Apart, so that plugins do not use these hosts' share of the processors.
        self._hosts = Hosts(unconfined=unconfined, limits=_SUPERVISION, zygote=zygote, apart=True)
        self._egress = Egress(_EGRESS)
        self._modules: dict[str, str] = {}
        self._specs: dict[str, ProviderSpec] = {}
        self._warming: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._models: list[_ModelHost] = []
        self._nice = _SUPERVISION.nice

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts, running or not; empty before the first call."""
        return tuple(model.host for model in self._models)

    def hooks(self, spec: ProviderSpec, module: str) -> Mapping[str, Callable[..., Any]]:
        """Return the provider's hooks, each a call into a host; use it before the first call.

        Args:
            module: one of Solward's own modules, which has the hooks.
        """
        self._modules[spec.name] = module
        self._specs[spec.name] = spec
        return _ModelProvider(spec, self._lend_host, _WHOLE).hooks()

    def warm(self, names: Collection[str], after_s: float = _WARM_AFTER_S) -> None:
        """Start the hosts in the background and import litellm for these providers, so that no
        first call waits for it. Names of other providers are ignored."""
        specs = [spec for name, spec in sorted(self._specs.items()) if name in names]
        if specs and self._warming is None:
            self._warming = asyncio.create_task(self._warm_hosts(specs, after_s))

    async def close(self) -> None:
        """End the hosts and their calls."""
        if self._warming is not None:
            await end([self._warming])
        if self._opening is not None:
            await asyncio.wait([self._opening])
            await self._hosts.close()
        await self._egress.close()

    @asynccontextmanager
    async def _lend_host(self) -> AsyncIterator[TenantHost]:
        """Yield the least busy host, for one call."""
        await self._ensure_open()
        # A disabled host has no calls, so that as the least busy it would get all of them.
        model = min(self._models, key=lambda each: (each.host.disabled is not None, each.calls))
        async with self._lend(model) as tenant:
            yield tenant

    @asynccontextmanager
    async def _lend(self, model: _ModelHost) -> AsyncIterator[TenantHost]:
        async with model.lend_turn() as tenant:
            self._set_nice()
            try:
                yield tenant
                # Set only after success: after a cancelled call the host may still import litellm.
                model.settled = model.host.pid
            finally:
                self._set_nice()

    def _set_nice(self) -> None:
        """Set the hosts' nice value, which differs while a host imports litellm."""
        starting = any(each.is_starting for each in self._models)
        nice = _SUPERVISION.nice if starting else _SETTLED_NICE
        if nice != self._nice:
            self._nice = nice
            self._hosts.set_nice(nice)

    async def _warm_hosts(self, specs: Sequence[ProviderSpec], after_s: float) -> None:
        """Request a price from each provider in each host, which imports litellm offline."""
        await asyncio.sleep(after_s)
        try:
            await self._ensure_open()
            for model in self._models:
                for spec in specs:
                    hosted = HostedProvider(spec, partial(self._lend, model))
                    await hosted.price(spec.default_model, {})
        except SolwardError as error:
            # The first call fails the same way and tells its caller.
            _log.info("model_hosts_not_warmed", error=str(error))

    async def _ensure_open(self) -> None:
        if self._opening is None or (self._opening.done() and not self._models):
            self._opening = asyncio.create_task(self._open_hosts())
        await asyncio.shield(self._opening)

    async def _open_hosts(self) -> None:
        folder = models.installed(self._root)
        if folder is None and not models.beside_the_service():
            raise ProviderError(
                f"The language models' libraries are not installed; run `{models.COMMAND}` on the"
                " service's machine, and try again"
            )
        await self._hosts.open()
        named = [[PROVIDERS, name, module] for name, module in self._modules.items()]
        for number in range(self._count):
            config = HostConfig(
                name=NAME,
                tenant=TENANT,
                folder=None if folder is None else str(folder),
                modules=tuple(self._modules.values()),
                memory_bytes=_ADDRESSES,
                resident_bytes=_RESIDENT,
                options={ENTRY_POINTS: jsontext.dumps(named)},
            )
            capabilities = Capabilities()
            host = self._hosts.add(config, capabilities.http_handlers(self._egress))
            self._models.append(_ModelHost(host, capabilities, number))


@dataclass(slots=True)
class _ModelHost:
    """A host of model providers with the numbers of its calls, in total and by lane."""

    host: Host
    capabilities: Capabilities
    number: int
    calls: int = 0
    settled: int | None = None
    lanes: list[int] = field(default_factory=lambda: [0] * (_CALLS // _LANE))
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CALLS))

    @property
    def is_starting(self) -> bool:
        """True while a first call runs, which imports litellm."""
        return self.calls > 0 and (self.settled is None or self.settled != self.host.pid)

    @asynccontextmanager
    async def lend_turn(self) -> AsyncIterator[TenantHost]:
        """Wait for a turn, and yield the host for one call."""
        self.calls += 1
        try:
            async with self.room:
                # The first lane with room, so that few connections are opened.
                lane = next(at for at, calls in enumerate(self.lanes) if calls < _LANE)
                self.lanes[lane] += 1
                try:
                    yield TenantHost(self.host, self.capabilities, f"{NAME}-{self.number}-{lane}")
                finally:
                    self.lanes[lane] -= 1
        finally:
            self.calls -= 1


@dataclass(frozen=True)
class _ModelProvider(HostedProvider):
    """A provider with cached prices, whose host gets only the fields for language models."""

    prices: dict[tuple[str, str], ModelPrice | None] = field(default_factory=dict)

    def _completion_call(
        self,
        tenant: TenantHost,
        request: CompletionRequest,
        options: Mapping[str, Any],
        context: ProviderContext,
    ) -> tuple[dict[str, Any], RunningCall]:
        # Only providers that are no language models read these fields.
        read = replace(request, observation={}, strategy="")
        return super()._completion_call(tenant, read, options, context)

    async def price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """See `HostedProvider.price`."""
        known = (model, to_json(options))
        if known not in self.prices:
            found = await super().price(model, options)
            if len(self.prices) >= _KEPT_PRICES:
                self.prices.clear()
            self.prices[known] = found
        return self.prices[known]
