"""What a language model provider declares, is asked, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider's declaration, returned by its `provider_spec` hook.

    Attributes:
        name: equal to the entry point's name; the agents' `llmProvider` value.
        default_model: used where no model is named.
        options: JSON Schema 2020-12 of the provider's options, an object.
        secret_env: environment variable of its API key; None when it needs none.
        base_url_env: environment variable of the address it calls instead of its vendor's own;
            None when there is none to choose. An address is configuration only: what a caller
            could set would be sent the key.
        is_llm: False for a provider that is not a language model (the rule-based demo).
        demo: loaded only when the service runs with `--demo`.
    """

    name: str
    default_model: str
    options: Mapping[str, Any]
    secret_env: str | None = None
    base_url_env: str | None = None
    is_llm: bool = True
    demo: bool = False


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What a provider is lent for one completion, by what its declaration names.

    Attributes:
        secret: value of `secret_env`, None when it is not set or none is declared.
        base_url: value of `base_url_env` without trailing slashes, None for the vendor's own.
    """

    secret: str | None = field(default=None, repr=False)
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation; `role` is `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A skill as the model sees it; `parameters` is its JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What a provider is asked.

    Attributes:
        observation: the agent's current observation as data, for providers that are no language
            models; language models read the same facts in `messages`.
        strategy: the agent's strategy, likewise also part of `system`.
        max_output_tokens: most tokens to answer with, by the agent's token budget; None is as
            the options say.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    observation: Mapping[str, Any] = field(default_factory=dict)
    strategy: str = ""
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model wants called; `arguments` exactly as it sent them (maybe not an object)."""

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one completion as the vendor counted them, cached and reasoning ones included.

    Attributes:
        cost_nanousd: estimated price in billionths of a US dollar, None when it is not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanousd: int | None = None

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model answered: its text, None when there was none, and its tool calls.

    Attributes:
        usage: what it took, None when the vendor did not say.
    """

    text: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
