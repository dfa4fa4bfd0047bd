"""The four language model providers, loaded as the service loads them, against scripted vendors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.support.vendors.server import VendorServer

from solward import Completion, CompletionRequest, Message, ProviderContext, ToolDefinition, Usage
from solward.plugins import LoadedProvider, Registry, load_registry
from solward_plugins.llm import call
from solward_plugins.llm.call import RetryPolicy
from solward_plugins.llm.vendor import Vendor
from solward_plugins.providers.vendors import ANTHROPIC, GEMINI, GROK, OPENAI

VENDORS: dict[str, Vendor] = {
    each.vendor.name: each.vendor for each in (OPENAI, ANTHROPIC, GROK, GEMINI)
}
KEY = "canary-7f3a9c51e8d24b60"

WAIT = ToolDefinition(
    "wait",
    "Do nothing.",
    {"type": "object", "properties": {"reason": {"type": "string"}}, "additionalProperties": False},
)


@cache
def registry() -> Registry:
    """What is built in."""
    return load_registry(["solward"], demo=True)


def loaded(name: str) -> LoadedProvider:
    """A provider as the service has it."""
    return registry().providers[name]


@dataclass
class Waits:
    """Waits without waiting, and notes how long."""

    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def policy(self, **changes: Any) -> RetryPolicy:
        """Without jitter: each wait is the shortest it can be."""
        return RetryPolicy(**{"sleep": self.sleep, "jitter": lambda: 0.0, **changes})


def asked_of(vendor: Vendor, *tools: ToolDefinition, **changes: Any) -> CompletionRequest:
    """A short request of the vendor's default model."""
    fields: dict[str, Any] = {
        "model": vendor.default_model,
        "system": "Be brief.",
        "messages": (Message("user", "What now?"),),
        "tools": tools,
    }
    return CompletionRequest(**(fields | changes))


def lent(vendor: Vendor, server: VendorServer, scenario: str | None = None) -> ProviderContext:
    """A key that asks for the scenario, and the server's address for the vendor."""
    secret = KEY if scenario is None else f"{KEY}~{scenario}"
    return ProviderContext(secret, server.base_urls[vendor.base_url_env])


async def complete(
    vendor: Vendor,
    server: VendorServer,
    scenario: str | None = None,
    *tools: ToolDefinition,
    policy: RetryPolicy | None = None,
    options: Mapping[str, Any] | None = None,
) -> Completion:
    """One completion."""
    return await call.complete(
        vendor,
        asked_of(vendor, *tools),
        options or {},
        lent(vendor, server, scenario),
        policy or Waits().policy(),
    )


async def streamed(
    vendor: Vendor,
    server: VendorServer,
    scenario: str | None = None,
    policy: RetryPolicy | None = None,
) -> list[str | Usage]:
    """All pieces of one answer."""
    pieces = call.stream(
        vendor,
        asked_of(vendor),
        {},
        lent(vendor, server, scenario),
        policy or Waits().policy(),
    )
    return [piece async for piece in pieces]
