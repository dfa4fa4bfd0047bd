"""The differences between the vendors; everything else of the four providers is shared."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from solward import Manifest, ProviderSpec, Secret

# Enough for reasoning and an answer; without it litellm asks Anthropic for 128,000.
DEFAULT_MAX_TOKENS = 8_192
MOST_TOKENS = 128_000


@dataclass(frozen=True, slots=True)
class Vendor:
    """The properties of one vendor of language models.

    Attributes:
        name: the provider's name, an agent's `llmProvider`.
        company: the vendor's name in errors.
        prefix: litellm's name of the vendor, before the slash of its model names.
        address: the vendor's base address; always passed, so that litellm reads none from the
            environment.
        efforts: the vendor's values of reasoning effort.
        max_temperature: the vendor's own upper limit.
        caches_on_request: whether it caches only marked prompts; others cache by themselves.
        narrow_schemas: whether it accepts only part of JSON Schema (`solward.tool_definitions`).
    """

    name: str
    company: str
    prefix: str
    address: str
    default_model: str
    key_env: str
    base_url_env: str
    efforts: tuple[str, ...]
    max_temperature: int = 2
    caches_on_request: bool = False
    narrow_schemas: bool = False

    def spec(self) -> ProviderSpec:
        """Return the provider's declaration; addresses are configuration, not options."""
        site = str(urlsplit(self.address).hostname)
        return ProviderSpec(
            name=self.name,
            default_model=self.default_model,
            options={
                "type": "object",
                "properties": {
                    "temperature": {
                        "type": "number",
                        "minimum": 0,
                        "maximum": self.max_temperature,
                        "description": "Sent only if set, and not to models that refuse it.",
                    },
                    "maxTokens": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MOST_TOKENS,
                        "default": DEFAULT_MAX_TOKENS,
                        "description": "Maximum tokens of an answer, including its reasoning.",
                    },
                    "reasoningEffort": {
                        "type": "string",
                        "enum": list(self.efforts),
                        "description": "Sent only if set, and not to models without it.",
                    },
                },
                "additionalProperties": False,
            },
            secret_env=self.key_env,
            base_url_env=self.base_url_env,
            manifest=Manifest(sites=(site,), secrets=(Secret(self.key_env, site),)),
        )
