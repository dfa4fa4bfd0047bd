"""grok: xAI's models.

Its key is `XAI_API_KEY`; `XAI_API_BASE` is an address to call instead of the vendor's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
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

VENDOR = Vendor(
    name="grok",
    company="xAI",
    prefix="xai",
    address="https://api.x.ai/v1",
    default_model="grok-4.7",
    key_env="XAI_API_KEY",
    base_url_env="XAI_API_BASE",
    efforts=("low", "medium", "high"),
)


@hookimpl
def provider_spec() -> ProviderSpec:
    """The declaration."""
    return VENDOR.spec()


@hookimpl
async def provider_complete(
    request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
) -> Completion:
    """One answer; raises `ProviderError`."""
    return await call.complete(VENDOR, request, options, context)


@hookimpl
async def provider_stream(
    request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
) -> AsyncIterator[str | Usage]:
    """One answer in pieces; raises `ProviderError`."""
    async for piece in call.stream(VENDOR, request, options, context):
        yield piece


@hookimpl
async def provider_price(model: str, options: Mapping[str, Any]) -> ModelPrice | None:
    """The model's dearest rates, None where litellm's list does not have it."""
    return await call.price(VENDOR, model, options)
