"""The language models of Anthropic, Google, xAI and OpenAI. Each vendor is an entry point.

`key_env` names the variable with a vendor's key, and `base_url_env` the variable with an address to
use in place of the vendor's own. OpenAI's can be any server that supports Chat Completions.
"""

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
from solward_plugins.llm.call import complete, price, stream
from solward_plugins.llm.vendor import Vendor


@dataclass(frozen=True, slots=True)
class VendorPlugin:
    """The models of a vendor as a provider plugin."""

    vendor: Vendor

    @hookimpl
    def provider_spec(self) -> ProviderSpec:
        """Return the declaration."""
        return self.vendor.spec()

    @hookimpl
    async def provider_complete(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> Completion:
        """Return one answer; raises `ProviderError`."""
        return await complete(self.vendor, request, options, context)

    @hookimpl
    async def provider_stream(
        self, request: CompletionRequest, options: Mapping[str, Any], context: ProviderContext
    ) -> AsyncIterator[str | Usage]:
        """Yield one answer in pieces; raises `ProviderError`."""
        async for piece in stream(self.vendor, request, options, context):
            yield piece

    @hookimpl
    async def provider_price(self, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
        """Return the model's highest rates; None if litellm's list lacks the model."""
        return await price(self.vendor, model, options)


ANTHROPIC = VendorPlugin(
    Vendor(
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
)

GEMINI = VendorPlugin(
    Vendor(
        name="gemini",
        company="Google",
        prefix="gemini",
        address="https://generativelanguage.googleapis.com/v1beta",
        default_model="gemini-3.8-flash",
        key_env="GEMINI_API_KEY",
        base_url_env="GEMINI_API_BASE",
        efforts=("minimal", "low", "medium", "high"),
        narrow_schemas=True,
    )
)

GROK = VendorPlugin(
    Vendor(
        name="grok",
        company="xAI",
        prefix="xai",
        address="https://api.x.ai/v1",
        default_model="grok-4.7",
        key_env="XAI_API_KEY",
        base_url_env="XAI_API_BASE",
        efforts=("low", "medium", "high"),
    )
)

OPENAI = VendorPlugin(
    Vendor(
        name="openai",
        company="OpenAI",
        prefix="openai",
        address="https://api.openai.com/v1",
        default_model="gpt-5.2",
        key_env="OPENAI_API_KEY",
        base_url_env="OPENAI_BASE_URL",
        efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    )
)
