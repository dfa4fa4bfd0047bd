"""Error texts of a vendor's failures, without key and prompt.

A vendor's own text can repeat both, so it is dropped: only the status stays, and the error code if
it is a plain word.

Refusals: the vendor, or its model, would not answer a prompt, and says so in a field of its own.

| vendor | where it says so | |---|---| | OpenAI, xAI | `message.refusal`, in a stream
`delta.refusal`; `finish_reason` `content_filter`; in OpenAI's Responses a part of type `refusal` |
| Anthropic | `stop_reason` `refusal`, with `stop_details` `category` and `explanation` | | Gemini |
`promptFeedback.blockReason`; a candidate's `finishReason`, such as `SAFETY` |

litellm 1.106.2 makes `content_filter` of most and keeps neither reasons nor sentences, so they are
read where it reads them: in the vendor's own answer.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from inspect import iscoroutine
from typing import Any, Final

import httpx

from solward import (
    CompletionRequest,
    ModelRefused,
    ProviderContext,
    ProviderError,
    Usage,
)
from solward_plugins.llm.vendor import Vendor

# Statuses after which the same request may succeed: RFC 9110, and Anthropic's 529 "overloaded".
_LATER = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# A 429 for an account without credit, which waiting does not help.
_UNPAID = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_CODE = re.compile(r"[a-z][a-z_]{2,59}")
_LONGEST_CHAIN = 10
_SAFETY_CHECK = re.compile(r"SAFETY_CHECK_TYPE_([A-Z_]{2,60})")

_FILTERED: Final = "content_filter"
_WORD = re.compile(r"[a-z][a-z_]{2,59}")
# As much as an error may carry out of a plugin host.
_MOST: Final = 2_000


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    Attributes:
        retry_after_s: the vendor's `Retry-After` in seconds, None without one.
    """

    error: ProviderError
    retry_after_s: float | None = None

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.error.retryable


def failure_of(
    vendor: Vendor, request: CompletionRequest, context: ProviderContext, error: Exception
) -> Failure:
    """The failure of an attempt that raised `error`."""
    causes = list(_causes(error))
    if any(map(_is_of_answer, causes)):
        return Failure(unreadable(vendor, context, "it is encoded, or too large"))
    if any(isinstance(each, httpx.TransportError | OSError) for each in causes):
        unsent = any(isinstance(each, httpx.ConnectError | httpx.ConnectTimeout) for each in causes)
        return Failure(_unreachable(vendor, context, may_cost=not unsent))
    status, code = _status(error), _code(error)
    # For an answer that is no JSON litellm invents a status.
    if status is None or any(isinstance(each, json.JSONDecodeError) for each in causes):
        return Failure(unreadable(vendor, context, "it is not JSON"))
    if (reason := _refusal(causes, code)) is not None:
        return Failure(refused(vendor, reason, may_cost=False))
    http = f"HTTP {status}" + (f", {code}" if code else "")
    if code in _UNPAID or status == 402:
        words = f"{vendor.company} says the account has no credit left ({http}); add credit to it"
        return Failure(ProviderError(words))
    if status in _LATER or status >= 500:
        words = _BUSY.get(status, "failed")
        return Failure(
            ProviderError(f"{vendor.company} {words} ({http}); try again later", retryable=True),
            next((wait for each in causes if (wait := _retry_after(each)) is not None), None),
        )
    if status in (401, 403):
        words = f"{vendor.company} refused the key in {vendor.key_env} ({http}); set a valid one"
        return Failure(ProviderError(words))
    if status == 404:
        words = f"{vendor.company} knows no model {request.model!r} ({http}); set another llmModel"
        return Failure(ProviderError(words + _at(vendor, context)))
    words = (
        f"{vendor.company} refused the request ({http}); check the agent's llmModel, its options "
        "and the length of its strategy"
    )
    return Failure(ProviderError(words))


def _is_of_answer(cause: BaseException) -> bool:
    """Whether an answer came, and the client of the host did not take it."""
    code = getattr(cause, "code", None)
    return (
        isinstance(cause, httpx.DecodingError)
        or code == "encoded_answer"
        or (code == "too_large" and "answer" in str(cause))
    )


def _refusal(causes: Sequence[BaseException], code: str | None) -> str | None:
    """Why a vendor's error refuses what the prompt asks for, None where it is another error."""
    for each in causes:
        # xAI's, a 403 as of a wrong key.
        if found := _SAFETY_CHECK.search(str(each)):
            return found[1].lower()
        # litellm's name for all of them.
        if type(each).__name__ == "ContentPolicyViolationError":
            return "content_policy" if code is None or code.endswith("_error") else code
    return None


def too_late(vendor: Vendor, deadline_s: float) -> ProviderError:
    """The answer was not complete within the deadline."""
    return ProviderError(
        f"{vendor.company} did not answer within {deadline_s:g} s; try again later, "
        "or set a smaller maxTokens or reasoningEffort",
        retryable=True,
        may_cost=True,
    )


_BUSY: Mapping[int, str] = {
    408: "took too long",
    429: "is limiting the rate of requests",
    503: "is unavailable",
    504: "took too long",
    529: "is overloaded",
}


def unreadable(
    vendor: Vendor, context: ProviderContext, reason: str, usage: Usage | None = None
) -> ProviderError:
    """The vendor answered and billed, and the same question may be billed again for the same."""
    words = f"{vendor.company} answered, and the model's answer cannot be read: {reason}"
    advice = "; set another llmModel" + _at(vendor, context)
    return ProviderError(words + advice, may_cost=True, usage=usage)


def cut_off(vendor: Vendor, usage: Usage | None) -> ProviderError:
    """The answer ended by its length, in a tool call: whether all of the call is there is not
    known."""
    return ProviderError(
        f"{vendor.company} cut the answer off within a tool call, which was not run; raise "
        "maxTokens in the agent's llmOptions",
        may_cost=True,
        usage=usage,
    )


def _unreachable(vendor: Vendor, context: ProviderContext, *, may_cost: bool) -> ProviderError:
    where = vendor.base_url_env if context.base_url else "the network"
    return ProviderError(
        f"{vendor.company} could not be reached, or broke off its answer; check {where}",
        retryable=True,
        may_cost=may_cost,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes: litellm reports a broken connection as a 500 too."""
    seen: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__


def _at(vendor: Vendor, context: ProviderContext) -> str:
    return f", or check {vendor.base_url_env}" if context.base_url else ""


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None


def _code(error: Exception) -> str | None:
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    codes = [getattr(error, "code", None)]
    if isinstance(inner, Mapping):
        codes += [inner.get("code"), inner.get("type")]
    words = [word for word in codes if isinstance(word, str) and _CODE.fullmatch(word)]
    return words[0] if words else None


def _retry_after(error: BaseException) -> float | None:
    """Seconds of `Retry-After` (RFC 9110 10.2.3: seconds or a date), or `retry-after-ms`."""
    headers: Any = getattr(error, "litellm_response_headers", None)
    if headers is None:
        headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    named = {str(name).lower(): str(value) for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = named.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
            return float(text) * unit
    try:
        until = parsedate_to_datetime(named.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, until.timestamp() - time.time())


# Of Anthropic, OpenAI's Responses, Gemini and Chat Completions.
_CUT_OFF: Final = frozenset({"max_tokens", "incomplete", "MAX_TOKENS", "length"})


class RefusalWatch:
    """What one request's answer says of a refusal."""

    def __init__(self) -> None:
        self._whole: object = None
        self._has_failed = False
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
            self.read(chunk)
            if isinstance(chunk, dict):
                with_text_of_parts(chunk)
            try:
                return parse(chunk)
            except Exception as error:
                # What the vendor reports in a stream has a status.
                self._has_failed = hasattr(error, "status_code")
                raise

        source.chunk_parser = parsed

    def has_answer(self, error: BaseException) -> bool:
        """Whether `error` is of reading what came, for which litellm invents a vendor's failure."""
        failed = any(isinstance(each, httpx.HTTPError) for each in _causes(error))
        # A coroutine has not begun to ask for a stream.
        came = self._whole is not None and not iscoroutine(self._whole)
        return came and not failed and not self._has_failed

    def answer(self) -> Any:
        """The whole answer that the vendor sent, None where it is no JSON."""
        with suppress(ValueError, RecursionError):
            # As litellm reads it. Text is cleaned where the answer leaves the host.
            return json.loads(str(self._whole))
        return None

    def is_cut_off(self) -> bool:
        """Whether a whole answer ended by its length, in the vendor's own words: litellm says of
        some that they ended with a tool call."""
        answer = _mapping(self.answer())
        ends = [
            answer.get("stop_reason"),
            answer.get("status"),
            *(each.get("finishReason") for each in _mappings(answer.get("candidates"))),
            *(each.get("finish_reason") for each in _mappings(answer.get("choices"))),
        ]
        return not _CUT_OFF.isdisjoint(each for each in ends if isinstance(each, str))

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
            self.read(self.answer())
        if not filtered and not self._refused:
            return None
        return self._reason or (_FILTERED if filtered else "refusal"), self._said[:_MOST]

    def read(self, answer: object) -> None:
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


def with_text_of_parts(answer: dict[str, Any]) -> bool:
    """Put the text of its parts in place of a content of Chat Completions that is a list, in a
    whole answer or a chunk of it; whether there was one."""
    changed = False
    for choice in _mappings(answer.get("choices")):
        for name in ("message", "delta"):
            message = choice.get(name)
            if isinstance(message, dict) and isinstance(parts := message.get("content"), list):
                texts = list(map(_text_of, parts))
                if None not in texts:
                    message["content"] = "".join(text or "" for text in texts)
                    changed = True
    return changed


def _text_of(part: object) -> str | None:
    """The text of a part, empty for what a model thought; None where it is no text."""
    fields = _mapping(part)
    text = "" if fields.get("type") == "thinking" else fields.get("text", part)
    return text if isinstance(text, str) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
