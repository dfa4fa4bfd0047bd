"""A provider that runs in a plugin host: its hooks as the registry calls them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

from solward.hosts.capabilities import RunningCall, TenantHost
from solward.hosts.egress import EgressCall, Limits
from solward.hosts.wire import methods
from solward.hosts.wire.methods import CompletionPiece
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
"""The host that takes a call, until the block ends; may have to wait for one."""


@dataclass(frozen=True, slots=True)
class HostedProvider:
    """One provider: each hook as a call into a host.

    Attributes:
        whole: limits of the requests for an answer that does not stream, in place of all calls'.
    """

    spec: ProviderSpec
    lend: Lend
    whole: Limits | None = None

    def hooks(self) -> dict[str, Callable[..., Any]]:
        """By name, called as those of a provider in this process."""
        return {
            "provider_complete": self.complete,
            "provider_stream": self.stream,
            "provider_price": self.price,
        }

    async def complete(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> Completion:
        """One completion; raises `ProviderError`, or `SkillError` where a request was refused."""
        async with self.lend() as tenant:
            call, running = self._completion_call(tenant, request, options, context)
            assert running.egress is not None
            running.egress.limits = self.whole
            with _as_provider():
                completion: Completion = await tenant.call(methods.PROVIDER_COMPLETE, call, running)
            return completion

    async def stream(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> AsyncGenerator[str | Usage, None]:
        """One completion in pieces; raises as `complete`."""
        async with self.lend() as tenant:
            call, running = self._completion_call(tenant, request, options, context)
            stream = tenant.stream(methods.PROVIDER_STREAM, call, running)
            async with aclosing(stream) as pieces:
                while True:
                    with _as_provider():
                        piece: CompletionPiece | None = await anext(pieces, None)
                    if piece is None:
                        return
                    if piece.text:
                        yield piece.text
                    if piece.usage is not None:
                        yield piece.usage

    async def price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """A model's price; raises as `complete`."""
        call = {"name": self.spec.name, "model": model, "options": options}
        async with self.lend() as tenant:
            running = self._running(tenant, ProviderContext())
            with _as_provider():
                price: ModelPrice | None = await tenant.call(methods.PROVIDER_PRICE, call, running)
            return price

    def _running(self, tenant: TenantHost, context: ProviderContext) -> RunningCall:
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
        running, variable = self._running(tenant, context), self.spec.secret_env
        assert running.egress is not None
        # The key itself stays here: the service puts it into the requests that may carry it.
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
def _as_provider() -> Iterator[None]:
    """Let pass what a provider may raise; other errors of the service's are not its host's to
    raise, and become `ProviderError`."""
    try:
        yield
    except (ProviderError, SkillError):
        raise
    except SolwardError as error:
        raise ProviderError(f"The provider failed: {error}") from None
