"""The parameters a model takes, where litellm's list does not know the model.

Of a model that is on the list litellm knows what it takes. A newer one gets what the reasoning
models of its vendor take, by its name; what it refuses all the same, by a 400 that names the
parameter, is changed, sent once more and remembered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from solward_plugins.llm.vendor import Vendor


class Change(StrEnum):
    """How a request is changed for a model."""

    COMPLETION_TOKENS = "max_completion_tokens for max_tokens"
    MAX_TOKENS = "max_tokens for max_completion_tokens"
    NO_TEMPERATURE = "no temperature"
    NO_EFFORT = "no reasoning effort"
    NO_CACHE = "no prompt caching"


# OpenAI's reasoning models: gpt-5 and later ones, o1, o3, ...
_OPENAI_REASONING: Final = re.compile(r"(gpt-([5-9]|\d{2,})|o\d+)([.-].*)?")
# In the text of a 400, and the argument that must have been sent; the first that fits.
_NAMED: Final = (
    (re.compile(r"max_completion_tokens"), "max_tokens", Change.COMPLETION_TOKENS),
    (re.compile(r"max_completion_tokens"), "max_completion_tokens", Change.MAX_TOKENS),
    (re.compile(r"temperature"), "temperature", Change.NO_TEMPERATURE),
    (re.compile(r"effort|thinking|reasoning|output_config"), "reasoning_effort", Change.NO_EFFORT),
    (re.compile(r"cache_control"), "messages", Change.NO_CACHE),
)
_REFUSED: Final = (400, 422)
_KEPT: Final = 256

_learned: dict[tuple[str, str, str], tuple[Change, ...]] = {}


def adapted(
    vendor: Vendor, arguments: Mapping[str, Any], listed: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments as the model takes them, as far as that is known.

    Args:
        arguments: of litellm's completion.
        listed: litellm's `model_cost`.
    """
    made = dict(arguments)
    model = str(made["model"]).removeprefix(f"{vendor.prefix}/")
    if f"{vendor.prefix}/{model}" not in listed and model not in listed:
        if vendor.prefix == "openai" and _OPENAI_REASONING.fullmatch(model):
            made = changed(changed(made, Change.COMPLETION_TOKENS), Change.NO_TEMPERATURE)
        if "reasoning_effort" in made:
            # litellm leaves it out where it does not know that the model reasons.
            made["allowed_openai_params"] = ["reasoning_effort"]
            if vendor.prefix == "anthropic":
                # Anthropic refuses another than its default beside thinking.
                made = changed(made, Change.NO_TEMPERATURE)
    for change in _learned.get(_key(vendor, made), ()):
        made = changed(made, change)
    return made


def correction(arguments: Mapping[str, Any], error: BaseException) -> Change | None:
    """The change that a vendor's refusal of a parameter asks for."""
    if getattr(error, "status_code", None) not in _REFUSED:
        return None
    text = str(error)
    for pattern, argument, change in _NAMED:
        if (
            argument in arguments
            and pattern.search(text)
            and changed(arguments, change) != arguments
        ):
            return change
    return None


def learn(vendor: Vendor, arguments: Mapping[str, Any], change: Change) -> None:
    """Have later requests of the model at this address changed from the start."""
    if len(_learned) >= _KEPT:
        _learned.clear()
    key = _key(vendor, arguments)
    known = _learned.get(key, ())
    if change not in known:
        _learned[key] = (*known, change)


def forget() -> None:
    """Forget what was learned; for tests."""
    _learned.clear()


def changed(arguments: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """A copy of the arguments with the change, the same where it changes nothing."""
    made = dict(arguments)
    match change:
        case Change.COMPLETION_TOKENS if "max_tokens" in made:
            made["max_completion_tokens"] = made.pop("max_tokens")
        case Change.MAX_TOKENS if "max_completion_tokens" in made:
            made["max_tokens"] = made.pop("max_completion_tokens")
        case Change.NO_TEMPERATURE:
            made.pop("temperature", None)
        case Change.NO_EFFORT:
            made.pop("reasoning_effort", None)
            made.pop("allowed_openai_params", None)
        case Change.NO_CACHE:
            made["messages"] = [_uncached(each) for each in made["messages"]]
    return made


def _uncached(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    return {**message, "content": "".join(part["text"] for part in content)}


def _key(vendor: Vendor, arguments: Mapping[str, Any]) -> tuple[str, str, str]:
    return vendor.name, str(arguments["model"]), str(arguments["api_base"])
