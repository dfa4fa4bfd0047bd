"""Error texts of a vendor's failures, without key and prompt.

A vendor's own text may repeat both, so only its status is used, and its error code if that is a
plain word.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from solward import (
    CompletionRequest,
    ModelRefused,
    ProviderContext,
    ProviderError,
    Usage,
)
from solward_plugins.llm.answers import AnswerWatch
from solward_plugins.llm.vendor import Vendor

# Statuses after which the same request may succeed: RFC 9110, and Anthropic's 529 "overloaded".
_LATER = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# A 429 for an account without credit, which waiting does not help.
_UNPAID = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
# What vendors call such failures in an answer of status 200.
_STATUS_OF: Final = {
    "rate_limit_exceeded": 429, "rate_limit_error": 429, "resource_exhausted": 429,
    "server_error": 500, "api_error": 500, "internal_error": 500, "internal": 500,
    "unavailable": 503, "timeout_error": 504, "deadline_exceeded": 504, "overloaded_error": 529,
}  # fmt: skip
_LONGEST_CHAIN = 10
_SAFETY_CHECK = re.compile(r"SAFETY_CHECK_TYPE_([A-Z_]{2,60})")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    Attributes:
        retry_after_s: the vendor's `Retry-After` in seconds; None if there is none.
    """

    error: ProviderError
    retry_after_s: float | None = None

    @property
    def retryable(self) -> bool:
        """True if the same call may succeed later."""
        return self.error.retryable


def failure_of(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    error: Exception,
    watch: AnswerWatch,
    usage: Usage | None = None,
) -> Failure:
    """Return the failure of an attempt that raised `error`.

    Args:
        usage: the token counts of the answer.
    """
    failure = _classify(vendor, request, context, error, watch)
    if watch.is_answer:
        failure.error.may_cost = True
        failure.error.usage = usage
    return failure


def _classify(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    error: Exception,
    watch: AnswerWatch,
) -> Failure:
    causes = list(_causes(error))
    if watch.problem is not None:
        return Failure(unreadable_error(vendor, context, watch.problem))
    if watch.words is None and any(map(_is_answer_refused, causes)):
        return Failure(unreadable_error(vendor, context, "its content is encoded, or too large"))
    if any(isinstance(each, httpx.TransportError | OSError) for each in causes):
        unsent = any(isinstance(each, httpx.ConnectError | httpx.ConnectTimeout) for each in causes)
        return Failure(_unreachable(vendor, context, may_cost=not unsent))
    # litellm invents a status for an answer that it cannot read.
    if watch.is_answer and watch.words is None:
        return Failure(unreadable_error(vendor, context, "it is not in the vendor's format"))
    status, words_of_vendor = _status(watch), watch.words or ()
    code = next(iter(words_of_vendor), None)
    if (reason := _content_refusal(causes, code)) is not None:
        return Failure(refusal_error(vendor, reason, may_cost=False))
    http = "an error in its answer" if watch.is_answer else f"HTTP {status}"
    http += f", {code}" if code else ""
    if not _UNPAID.isdisjoint(words_of_vendor) or status == 402:
        words = f"{vendor.company} says the account has no credit left ({http}); add credit to it"
        return Failure(ProviderError(words))
    if status in _LATER or status >= 500:
        words = _BUSY.get(status, "failed")
        return Failure(
            ProviderError(f"{vendor.company} {words} ({http}); try again later", retryable=True),
            _retry_after(watch.headers),
        )
    if status < 400:
        words = f"{vendor.company} redirects the request ({http}), which is not followed; "
        return Failure(ProviderError(f"{words}set {vendor.base_url_env} to its new address"))
    if status in (401, 403):
        words = f"{vendor.company} refused the key in {vendor.key_env} ({http}); set a valid one"
        return Failure(ProviderError(words))
    if status == 404:
        words = f"{vendor.company} knows no model {request.model!r} ({http}); set another llmModel"
        return Failure(ProviderError(words + _address_advice(vendor, context)))
    words = (
        f"{vendor.company} refused the request ({http}); check the agent's llmModel, its options "
        "and the length of its strategy"
    )
    return Failure(ProviderError(words))


def _status(watch: AnswerWatch) -> int:
    """Return the status of a vendor's error, even if an answer with status 200 reports it."""
    if watch.status is None:
        # litellm refused the arguments without a request.
        return 400
    if not watch.is_answer:
        return watch.status
    named = [_STATUS_OF[word] for word in watch.words or () if word in _STATUS_OF]
    if watch.number is not None and watch.number in range(400, 600):
        return watch.number
    return (named or [400])[0]


def _is_answer_refused(cause: BaseException) -> bool:
    """Return whether the vendor answered, and the host's HTTP client refused the answer."""
    code = getattr(cause, "code", None)
    return (
        isinstance(cause, httpx.DecodingError)
        or code == "encoded_answer"
        or (code == "too_large" and "answer" in str(cause))
    )


def _content_refusal(causes: Sequence[BaseException], code: str | None) -> str | None:
    """Return the reason if an error refuses the prompt's content; None for any other error."""
    for each in causes:
        # xAI refuses a prompt with 403, the status of a wrong key too.
        if found := _SAFETY_CHECK.search(str(each)):
            return found[1].lower()
        # Azure has this code; litellm has an error class for the other vendors.
        if code == "content_filter":
            return code
        if type(each).__name__ == "ContentPolicyViolationError":
            return "content_policy" if code is None or code.endswith("_error") else code
    return None


def deadline_error(vendor: Vendor, deadline_s: float) -> ProviderError:
    """Return the error for an answer that was not complete within the deadline."""
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


def unreadable_error(
    vendor: Vendor, context: ProviderContext, reason: str, usage: Usage | None = None
) -> ProviderError:
    """Return the error for a billed, unreadable answer; another request may be billed again."""
    words = f"{vendor.company} answered, and the model's answer cannot be read: {reason}"
    advice = "; set another llmModel" + _address_advice(vendor, context)
    return ProviderError(words + advice, may_cost=True, usage=usage)


def cut_off_error(vendor: Vendor, usage: Usage | None) -> ProviderError:
    """Return the error for an answer that ended, by its length, within its tool calls."""
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
    """Yield the error and its causes: litellm reports a broken connection as a 500 too."""
    seen: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__


def _address_advice(vendor: Vendor, context: ProviderContext) -> str:
    return f", or check {vendor.base_url_env}" if context.base_url else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After` (RFC 9110: seconds or a date) or `retry-after-ms`."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
            return float(text) * unit
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, until.timestamp() - time.time())


def refusal_error(
    vendor: Vendor, reason: str, said: str = "", usage: Usage | None = None, *, may_cost: bool
) -> ModelRefused:
    """Return the error for a refusal of the vendor or its model."""
    return ModelRefused(
        f"{vendor.company} refused to answer this prompt ({reason})",
        reason=reason,
        said=said,
        usage=usage,
        may_cost=may_cost,
    )
