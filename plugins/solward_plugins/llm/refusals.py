"""Refusals: the vendor, or its model, would not answer a prompt, and says so in a field of its own.

| vendor | where it says so |
|---|---|
| OpenAI, xAI | `message.refusal`, in a stream `delta.refusal`; `finish_reason` `content_filter`; in OpenAI's Responses a part of type `refusal` |
| Anthropic | `stop_reason` `refusal`, with `stop_details` `category` and `explanation` |
| Gemini | `promptFeedback.blockReason`; a candidate's `finishReason`, such as `SAFETY` |

litellm 1.106.2 makes `content_filter` of most and keeps neither reasons nor sentences, so they are
read where it reads them: in the vendor's own answer.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from solward import ModelRefused, Usage
from solward_plugins.llm.vendor import Vendor

_FILTERED: Final = "content_filter"
_WORD = re.compile(r"[a-z][a-z_]{2,59}")
# As much as an error may carry out of a plugin host.
_MOST: Final = 2_000


class RefusalWatch:
    """What one request's answer says of a refusal."""

    def __init__(self) -> None:
        self._whole: object = None
        self._refused = False
        self._reason: str | None = None
        self._said = ""

    def logged(self, details: Mapping[str, Any]) -> None:
        """Keep the vendor's whole answer: litellm's `logger_fn`, called before and after."""
        self._whole = details.get("original_response")

    async def follow(self, response: Any) -> None:
        """Read the chunks of a streamed answer as litellm reads them."""
        source = await response.fetch_stream()
        parse = source.chunk_parser

        def parsed(chunk: Any) -> Any:
            self._read(chunk)
            return parse(chunk)

        source.chunk_parser = parsed

    def answered(self, message: Any) -> None:
        """Read a whole answer's message as litellm gives it."""
        fields = getattr(message, "provider_specific_fields", None)
        self._heard(_mapping(fields).get("refusal"))

    def refusal(self, finish_reason: object, is_empty: bool) -> tuple[str, str] | None:
        """(the vendor's word for why, what was said), None where it did not refuse.

        Args:
            finish_reason: as litellm gives it.
            is_empty: the answer has neither text nor tool calls.
        """
        filtered = finish_reason == _FILTERED
        if isinstance(self._whole, str) and (filtered or is_empty) and not self._said:
            with suppress(ValueError, RecursionError):
                self._read(json.loads(self._whole))
        if not filtered and not self._refused:
            return None
        return self._reason or (_FILTERED if filtered else "refusal"), self._said[:_MOST]

    def _read(self, answer: object) -> None:
        """Read a vendor's whole answer, or one chunk of it."""
        if not isinstance(answer, Mapping):
            return
        ended = _mapping(answer.get("delta")) if "delta" in answer else answer
        if ended.get("stop_reason") == "refusal":
            details = _mapping(ended.get("stop_details"))
            self._refused = True
            self._because(details.get("category"))
            self._heard(details.get("explanation"))
        self._because(_mapping(answer.get("promptFeedback")).get("blockReason"))
        for candidate in _mappings(answer.get("candidates")):
            self._because(candidate.get("finishReason"))
        for choice in _mappings(answer.get("choices")):
            for name in ("message", "delta"):
                self._heard(_mapping(choice.get(name)).get("refusal"))
        if answer.get("type") == "response.refusal.delta":
            self._heard(answer.get("delta"))

    def _because(self, reason: object) -> None:
        word = reason.lower() if isinstance(reason, str) else ""
        if _WORD.fullmatch(word):
            self._reason = word

    def _heard(self, said: object) -> None:
        if isinstance(said, str) and said:
            self._refused = True
            self._said = (self._said + said)[:_MOST]


def refused(
    vendor: Vendor, reason: str, said: str = "", usage: Usage | None = None, *, may_cost: bool
) -> ModelRefused:
    """The error of a refusal."""
    return ModelRefused(
        f"{vendor.company} refused to answer this prompt ({reason})",
        reason=reason,
        said=said,
        usage=usage,
        may_cost=may_cost,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
