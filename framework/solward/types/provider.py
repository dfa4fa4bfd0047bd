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
        default_model: the model if none is named.
        options: JSON Schema 2020-12 of the provider's options, an object.
        secret_env: environment variable of its API key; None when it needs none.
        base_url_env: environment variable of the address that the provider calls instead of its
            vendor's; None if the address is fixed. Only this variable can change it, because the
            address receives the key.
        is_llm: False for a provider that is not a language model (the rule-based demo).
        demo: loaded only when the service runs with `--demo`.
        manifest: the plugin's needs; None: no network, no storage, no secrets. If there is a
            manifest, it need not name the address of `base_url_env`. That address, not the
            manifest's sites, then gets the secret of `secret_env`, one of the manifest's `secrets`.
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
        secret: value of `secret_env`, None if it is not set or not declared.
        base_url: value of `base_url_env` without trailing slashes, None for the vendor's address.
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
    """A skill's description for the model; `parameters` is a JSON Schema."""

    name: Name
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """The input of one completion.

    Attributes:
        observation: the agent's current observation as data, for providers that are no language
            models; `messages` has the same facts as text.
        strategy: the agent's strategy, which is also part of `system`.
        max_output_tokens: the maximum tokens of the answer, from the agent's token budget; None if
            only the options limit them.
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
    """A tool call by the model; `arguments` is exactly what it sent, maybe not an object."""

    name: Name
    arguments: LongJson


MAX_TOKENS: Final = 2**40
"""The maximum tokens of one completion."""
MAX_NANOUSD: Final = 2**53
"""The maximum price of one completion, and of a million tokens: nine million dollars."""
_Tokens = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
_NanoUsd = Annotated[int, Meta(ge=0, le=MAX_NANOUSD)]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one completion as counted by the vendor, including cached and reasoning tokens.

    Attributes:
        input_tokens, output_tokens: 0 to `MAX_TOKENS`.
        cost_nanousd: estimated price in billionths of a US dollar, 0 to `MAX_NANOUSD`; None if not
            known.
    """

    input_tokens: _Tokens = 0
    output_tokens: _Tokens = 0
    cost_nanousd: _NanoUsd | None = None

    @property
    def tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The maximum price of one completion of a model, which a budget reserves before the call.

    Attributes:
        input_nanousd: price of a million tokens of the prompt, at the model's highest rate, in
            billionths of a US dollar.
        output_nanousd: the same for a million tokens of the answer.
        max_output_tokens: the maximum tokens of one answer, from the agent's options.
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
    """The model's answer: its text, None if it has none, and its tool calls.

    Attributes:
        usage: the completion's tokens, None if the vendor reported none.
    """

    text: LongText | None
    tool_calls: Annotated[tuple[ToolCall, ...], Items] = ()
    usage: Usage | None = None


# The maximum numbers of characters and calls; a plugin host cannot send more, or longer names.
_MAX_ANSWER: Final = 1 << 18
_MAX_NAME: Final = 200
_MAX_CALLS: Final = 1_024


def checked_completion(answer: object) -> Completion:
    """Return a provider's answer, with its text and the names of its calls cleaned and shortened.

    Raises:
        ProviderError: the answer cannot be read; the vendor may still charge for it.
    """
    if not isinstance(answer, Completion):
        raise _unreadable_answer(f"the provider returned {type(answer).__name__}, not Completion")
    usage, text = checked_usage(answer.usage), answer.text
    try:
        calls = tuple(
            ToolCall(cleaned(call.name[:_MAX_NAME]), call.arguments)
            for call in answer.tool_calls[:_MAX_CALLS]
        )
        return Completion(None if text is None else cleaned(text[:_MAX_ANSWER]), calls, usage)
    except (AttributeError, TypeError):
        raise _unreadable_answer("its text, or the name of a call, is not text", usage) from None


def checked_usage(usage: object) -> Usage | None:
    """Return the usage of an answer.

    Raises:
        ProviderError: it is not a `Usage`, or out of range: a budget would then grow or overflow.
    """
    if usage is None:
        return None
    if not isinstance(usage, Usage):
        raise _unreadable_answer("its usage is not of the class Usage")
    for name, most in _MAX_USAGE.items():
        value = getattr(usage, name)
        unknown = value is None and name == "cost_nanousd"
        if not unknown and not is_count(value, most):
            raise _unreadable_answer(f"the {name} of its usage is not from 0 to {most}")
    return usage


_MAX_USAGE: Final = {
    "input_tokens": MAX_TOKENS,
    "output_tokens": MAX_TOKENS,
    "cost_nanousd": MAX_NANOUSD,
}


def is_count(value: object, most: int) -> bool:
    """Return whether a value is an integer from 0 to `most`."""
    return type(value) is int and 0 <= value <= most


def _unreadable_answer(reason: str, usage: Usage | None = None) -> ProviderError:
    text = f"The model's answer cannot be read: {reason}"
    return ProviderError(text, may_cost=True, usage=usage)
