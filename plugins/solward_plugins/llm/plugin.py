"""A vendor's models as a provider plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from solward import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderSpec,
    Usage,
    hookimpl,
)
from solward_plugins.llm import call
from solward_plugins.llm.vendor import Vendor


@dataclass(frozen=True, slots=True)
class VendorPlugin:
    """What the entry point of a vendor's models names."""

    vendor: Vendor

    @hookimpl
    def provider_spec(self) -> ProviderSpec:
        """The declaration."""
        return self.vendor.spec()

    @hookimpl
    async def provider_complete(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> Completion:
        """One answer; raises `ProviderError`."""
        return await call.complete(self.vendor, request, options, context)

    @hookimpl
    async def provider_stream(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> AsyncIterator[str | Usage]:
        """One answer in pieces; raises `ProviderError`."""
        async for piece in call.stream(self.vendor, request, options, context):
            yield piece

    @hookimpl
    async def provider_price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """The model's dearest rates, None where litellm's list does not have it."""
        return await call.price(self.vendor, model, options)
