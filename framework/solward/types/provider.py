"""The types of language model providers: declaration, request and completion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from solward.support.clean_text import cleaned
from solward.types.bounds import Items, LongJson, LongJsonObject, LongText, Name
from solward.types.errors import ProviderError
from solward.types.manifest import Manifest


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider's declaration, returned by its `provider_spec` hook.

    Attributes:
        name: equal to the entry point's name; the agents' `llmProvider` value.
        default_model: used where no model is named.
        options: JSON Schema 2020-12 of the provider's options, an object.
        secret_env: environment variable of its API key; None when it needs none.
        base_url_env: environment variable of the address it calls instead of its vendor's own;
            None when it cannot be changed. An address is configuration only, because it receives
            the key.
        is_llm: False for a provider that is not a language model (the rule-based demo).
        demo: loaded only when the service runs with `--demo`.
        manifest: what it needs; None: no network, no storage, no secrets. With one, the address of
            `base_url_env` is allowed without being named, and gets the secret of `secret_env`,
            which is one of the manifest's `secrets`, instead of their sites.
    """

    name: Name
    default_model: Name
    options: Mapping[str, Any]
    secret_env: Name | None = None
    base_url_env: Name | None = None
    is_llm: bool = True
    demo: bool = False
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """The secret and address of a provider for one completion, as its declaration names them.

    Attributes:
        secret: value of `secret_env`, None when it is not set or none is declared.
        base_url: value of `base_url_env` without trailing slashes, None for the vendor's own.
        storage: as `SkillContext.storage`; None if the manifest declares no `storage_mb`.
    """

    secret: str | None = field(default=None, repr=False)
    base_url: str | None = None
    storage: Path | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation; `role` is `user` or `assistant`."""

    role: Name
    content: LongText


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A skill as the model sees it; `parameters` is its JSON Schema."""

    name: Name
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """The request of one completion.

    Attributes:
        observation: the agent's current observation as data, for providers that are no language
            models; `messages` has the same facts as text.
        strategy: the agent's strategy, which is also part of `system`.
        max_output_tokens: most tokens of the answer, by the agent's token budget; None leaves it
            to the options.
    """

    model: Name
    system: LongText
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    observation: LongJsonObject = field(default_factory=dict)
    strategy: LongText = ""
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by the model; `arguments` exactly as it sent them (maybe not an object)."""

    name: Name
    arguments: LongJson


MAX_TOKENS: Final = 2**40
"""Of one completion."""
MAX_NANOUSD: Final = 2**53
"""Of one completion, and of a million tokens: nine million dollars."""
_Tokens = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
_NanoUsd = Annotated[int, Meta(ge=0, le=MAX_NANOUSD)]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one completion as the vendor counted them, cached and reasoning ones included.

    Attributes:
        input_tokens, output_tokens: 0 to `MAX_TOKENS`.
        cost_nanousd: estimated price in billionths of a US dollar, 0 to `MAX_NANOUSD`; None when it
            is not known.
    """

    input_tokens: _Tokens = 0
    output_tokens: _Tokens = 0
    cost_nanousd: _NanoUsd | None = None

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The most that one completion of a model can cost, for budgets that are kept beforehand.

    Attributes:
        input_nanousd: billionths of a US dollar for a million tokens of the prompt, at the model's
            dearest rate.
        output_nanousd: the same of the answer.
        max_output_tokens: most tokens of one answer, by the agent's options.
    """

    input_nanousd: _NanoUsd
    output_nanousd: _NanoUsd
    max_output_tokens: _Tokens

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Return the price of the tokens in billionths of a US dollar, rounded up."""
        total = input_tokens * self.input_nanousd + output_tokens * self.output_nanousd
        return -(-total // 10**6)


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's answer: its text, None when there is none, and its tool calls.

    Attributes:
        usage: its tokens, None when the vendor reported none.
    """

    text: LongText | None
    tool_calls: Annotated[tuple[ToolCall, ...], Items] = ()
    usage: Usage | None = None


# The most characters and calls; a plugin host cannot send more, or a longer name.
_MAX_ANSWER: Final = 1 << 18
_MAX_NAME: Final = 200
_MAX_CALLS: Final = 1_024


def checked_completion(answer: object) -> Completion:
    """Return a provider's answer, its text and the names of its calls cleaned and shortened.

    Raises:
        ProviderError: it cannot be read. The vendor may charge for it all the same.
    """
    if not isinstance(answer, Completion):
        raise _unreadable(f"the provider answers a {type(answer).__name__}, not a Completion")
    usage, text = checked_usage(answer.usage), answer.text
    try:
        calls = tuple(
            ToolCall(cleaned(call.name[:_MAX_NAME]), call.arguments)
            for call in answer.tool_calls[:_MAX_CALLS]
        )
        return Completion(None if text is None else cleaned(text[:_MAX_ANSWER]), calls, usage)
    except (AttributeError, TypeError):
        raise _unreadable("its text, or the name of a call, is not text", usage) from None


def checked_usage(usage: object) -> Usage | None:
    """Return the usage of an answer.

    Raises:
        ProviderError: it is none, or out of range, which would make a budget grow or overflow.
    """
    if usage is None:
        return None
    if not isinstance(usage, Usage):
        raise _unreadable("its usage is not a Usage")
    for name, most in _MAX_USAGE.items():
        value = getattr(usage, name)
        unknown = value is None and name == "cost_nanousd"
        if not unknown and not is_count(value, most):
            raise _unreadable(f"it has a usage whose {name} is not 0 to {most}")
    return usage


_MAX_USAGE: Final = {
    "input_tokens": MAX_TOKENS,
    "output_tokens": MAX_TOKENS,
    "cost_nanousd": MAX_NANOUSD,
}


def is_count(value: object, most: int) -> bool:
    """Return whether a value is an integer of 0 to `most`."""
    return type(value) is int and 0 <= value <= most


def _unreadable(reason: str, usage: Usage | None = None) -> ProviderError:
    text = f"The model's answer cannot be read: {reason}"
    return ProviderError(text, may_cost=True, usage=usage)
