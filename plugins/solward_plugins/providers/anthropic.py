"""anthropic: Anthropic's models.

Its key is `ANTHROPIC_API_KEY`; `ANTHROPIC_API_BASE` is an address to call instead of the
vendor's own.
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
    name="anthropic",
    company="Anthropic",
    prefix="anthropic",
    address="https://api.anthropic.com",
    default_model="claude-sonnet-5-5",
    key_env="ANTHROPIC_API_KEY",
    base_url_env="ANTHROPIC_API_BASE",
    efforts=("low", "medium", "high"),
    max_temperature=1,
    caches_on_request=True,
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
