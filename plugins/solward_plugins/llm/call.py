"""One completion of a vendor's model, whole or streamed, through litellm: its attempts within one
total deadline, and its answer in Solward's types.

Prompt caching: an agent sends the same tools and system prompt in every cycle, and Anthropic caches
them if the request is marked. A write costs a quarter more than uncached tokens and lasts five
minutes; a read costs a tenth (platform.claude.com/docs/en/build-with-claude/prompt-caching). So a
prompt is marked only if the same prompt was sent within the last five minutes. Agents with a longer
interval, and prompts that are sent once, then cost no more than without caching. Other vendors
cache by themselves.

Parameters: litellm knows the parameters of models on its list. A newer model gets the parameters of
its vendor's reasoning models, by its name. If the model refuses one with a 400 that names it, the
parameter is changed, the request is sent once more, and the change is remembered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from solward import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderError,
    Usage,
    json_safe,
    tool_definitions,
)
from solward_plugins.llm.answers import AnswerWatch, current_watch, joined
from solward_plugins.llm.failures import (
    Failure,
    cut_off_error,
    deadline_error,
    failure_of,
    refusal_error,
    unreadable_error,
)
from solward_plugins.llm.library import library
from solward_plugins.llm.vendor import DEFAULT_MAX_TOKENS, Vendor

T = TypeVar("T")

# Sent to a server without keys, because clients always send one.
NO_KEY = "no-key-needed"

# The name becomes part of an address (Gemini) and of litellm's routing (`responses/`).
_MODEL = re.compile(r"(?!responses/)[A-Za-z0-9][\w.:@+-]*(/[A-Za-z0-9_@][\w.:@+-]*)*", re.ASCII)
_LONGEST_MODEL = 200

_KEPT_S: Final = 300.0
_MOST: Final = 4_096

_sent: dict[bytes, float] = {}

_NANOUSD = 10**9
# The end of a rate's name if the rate is for prompts above a size.
_OF_SIZE = re.compile(r"_above_\d+k_tokens$")
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Deadline and retries of a vendor's call.

    Attributes:
        deadline_s: seconds for all attempts and waits, to the last byte.
        attempts: maximum number of attempts.
        first_wait_s: longest wait after the first failure; doubled after each.
        longest_wait_s: upper limit of the doubling; a vendor's `Retry-After` may be longer.
        sleep: waits for seconds.
        jitter: a random number of [0, 1).
    """

    deadline_s: float = 120.0
    attempts: int = 4
    first_wait_s: float = 1.0
    longest_wait_s: float = 16.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def wait_s(self, failed: int, retry_after_s: float | None) -> float:
        """Return the seconds to wait after `failed` failures: the vendor's `Retry-After`, or a
        random time in the backoff's upper half, so that agents do not all retry at once."""
        backoff = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (failed - 1))
        if retry_after_s is not None:
            return retry_after_s + self.jitter() * min(backoff, 1.0)
        return backoff * (0.5 + self.jitter() / 2)


DEFAULT_POLICY = RetryPolicy()


async def with_retries(
    attempt: Callable[[], Awaitable[T | Failure]], policy: RetryPolicy, ends_at: float
) -> T:
    """Repeat `attempt` until it succeeds, and return the result.

    Args:
        ends_at: the deadline by the running loop's clock.

    Raises:
        ProviderError: the last failure, if no attempt is left, the next wait would exceed the
            deadline, or the failure is not retryable.
    """
    failed = 0
    while True:
        result = await attempt()
        if not isinstance(result, Failure):
            return result
        failed += 1
        wait_s = policy.wait_s(failed, result.retry_after_s)
        left_s = ends_at - asyncio.get_running_loop().time()
        if not result.retryable or failed >= policy.attempts or wait_s >= left_s:
            raise result.error
        await policy.sleep(wait_s)


async def complete(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    policy: RetryPolicy = DEFAULT_POLICY,
) -> Completion:
    """Return the model's answer.

    Raises:
        ModelRefused: the vendor or its model would not answer.
        ProviderError: no key is set, or the vendor refused, failed or did not answer in time.
    """
    arguments = litellm_arguments(vendor, request, options, context, policy)
    opened = await _first_answer(vendor, request, context, arguments, policy, _deadline(policy))
    litellm, response, watch = opened
    counted = getattr(response, "usage", None)
    usage = usage_of(vendor, request.model, counted, litellm.model_cost, watch.asked)
    completion = Completion(_message_text(_part(response, "message")), tuple(watch.calls), usage)
    refusal = watch.refusal(finish_reason(response))
    if refusal is not None:
        raise refusal_error(vendor, *refusal, usage, may_cost=True)
    if watch.skipped and completion.text is None and not completion.tool_calls:
        reason = "it has no text and no tool call, only " + ", ".join(sorted(watch.skipped))
        raise unreadable_error(vendor, context, reason, usage)
    if completion.tool_calls and watch.is_cut_off:
        raise cut_off_error(vendor, usage)
    return completion


async def price(vendor: Vendor, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
    """Return the highest rates of a model in the price list; None if the list lacks the model."""
    litellm = await library(vendor)
    most = int(options.get("maxTokens", DEFAULT_MAX_TOKENS))
    return price_of(vendor, model, litellm.model_cost, most)


async def stream(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    policy: RetryPolicy = DEFAULT_POLICY,
) -> AsyncGenerator[str | Usage, None]:
    """Yield the answer's text as it arrives, then its usage; retried only before its first piece.

    Raises:
        ModelRefused, ProviderError: as `complete`, also after pieces.
    """
    arguments = litellm_arguments(vendor, request, options, context, policy)
    arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    ends_at = _deadline(policy)
    opened = await _first_answer(vendor, request, context, arguments, policy, ends_at)
    litellm, (chunks, chunk), watch = opened
    counted, streamed, finish, held = None, False, None, ""
    try:
        while chunk is not None:
            finish = finish_reason(chunk) or finish
            counted = getattr(chunk, "usage", None) or counted
            piece = joined(held + (_message_text(_part(chunk, "delta")) or ""))
            # The first half of a pair of surrogates, of which the next piece has the other.
            held = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
            if piece := piece.removesuffix(held):
                streamed = True
                yield piece
            following = await _next_chunk(vendor, request, context, chunks, policy, ends_at, watch)
            # Raised here, not in `_next_chunk`, where its context would be the vendor's own error.
            if isinstance(following, Failure):
                raise following.error
            chunk = following
    finally:
        with suppress(Exception):
            await chunks.aclose()
    if held:
        yield held
    usage = usage_of(vendor, request.model, counted, litellm.model_cost, watch.asked)
    # If an answer is incomplete, the reserved amount stays counted.
    if usage is not None and watch.has_ended and not watch.is_miscounted:
        yield usage
    refusal = watch.refusal(finish)
    if refusal is not None:
        raise refusal_error(vendor, *refusal, may_cost=True)
    if not watch.has_ended:
        raise unreadable_error(vendor, context, "it ended before it was complete")
    if usage is None and not streamed:
        raise unreadable_error(vendor, context, "it has no text")


def litellm_arguments(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    policy: RetryPolicy,
) -> dict[str, Any]:
    """Return new arguments for litellm's completion, which no other call shares.

    Raises:
        ProviderError: no key, or an invalid model name.
    """
    if context.secret is None and context.base_url is None:
        raise ProviderError(f"The key of {vendor.company} is missing; set {vendor.key_env}")
    if len(request.model) > _LONGEST_MODEL or not _MODEL.fullmatch(request.model):
        raise ProviderError(f"{request.model[:80]!r} is no name of a model; set another llmModel")
    most = options.get("maxTokens", DEFAULT_MAX_TOKENS)
    if request.max_output_tokens is not None:
        most = min(most, request.max_output_tokens)
    arguments: dict[str, Any] = {
        "model": f"{vendor.prefix}/{request.model}",
        "messages": [
            {"role": "system", "content": request.system},
            *({"role": each.role, "content": each.content} for each in request.messages),
        ],
        "api_key": context.secret or NO_KEY,
        "api_base": context.base_url or vendor.address,
        "max_tokens": most,
        "timeout": policy.deadline_s,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
        # Else it looks through the tools of each call for those of its proxy.
        "_skip_mcp_handler": True,
    }
    if "temperature" in options:
        arguments["temperature"] = json_safe(options["temperature"])
    if "reasoningEffort" in options:
        arguments["reasoning_effort"] = options["reasoningEffort"]
    return arguments


async def _first_answer(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    arguments: Mapping[str, Any],
    policy: RetryPolicy,
    ends_at: float,
) -> tuple[Any, Any, AnswerWatch]:
    """Return litellm, its answer in the first successful attempt, and that attempt's watch."""

    def tools() -> dict[str, Any]:
        # New arguments for each attempt, because Gemini's route rewrites them in place.
        made = tool_definitions(request.tools, narrow=vendor.narrow_schemas)
        return {"tools": made} if made else {}

    asked = 0

    async def attempt() -> Any:
        nonlocal asked
        result = await ask()
        asked += isinstance(result, Failure) and result.error.may_cost
        return result

    async def ask() -> Any:
        sent = with_cache({**arguments, **tools()}) if vendor.caches_on_request else arguments
        sent = adapt_arguments(vendor, sent, litellm.model_cost)
        made: set[Change] = set()
        while True:
            watch = AnswerWatch(is_stream=bool(arguments.get("stream")), asked=asked + 1)
            current_watch.set(watch)
            try:
                named = {**sent, "messages": json_safe(sent["messages"]), **tools()}
                response = await litellm.acompletion(**named)
            except Exception as error:
                change = correction_for(sent, error)
                if change is None or change in made:
                    counted = token_counts(watch.whole)
                    usage = usage_of(
                        vendor, request.model, counted, litellm.model_cost, watch.asked
                    )
                    return failure_of(vendor, request, context, error, watch, usage)
                made.add(change)
                remember_change(vendor, sent, change)
                sent = apply_change(sent, change)
                continue
            if not arguments.get("stream"):
                return litellm, response, watch
            # With some vendors only the first chunk shows that the request was accepted.
            first = await _next_chunk(vendor, request, context, response, policy, ends_at, watch)
            return first if isinstance(first, Failure) else (litellm, (response, first), watch)

    with suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            litellm = await library(vendor)
            opened: tuple[Any, Any, AnswerWatch] = await with_retries(attempt, policy, ends_at)
            return opened
    raise deadline_error(vendor, policy.deadline_s)


async def _next_chunk(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    chunks: AsyncIterator[Any],
    policy: RetryPolicy,
    ends_at: float,
    watch: AnswerWatch,
) -> Any:
    """Return the next chunk or the failure; None after the last chunk."""
    try:
        async with asyncio.timeout_at(ends_at):
            return await anext(chunks, None)
    except TimeoutError:
        return Failure(deadline_error(vendor, policy.deadline_s))
    except Exception as error:
        return failure_of(vendor, request, context, error, watch)


def _deadline(policy: RetryPolicy) -> float:
    return asyncio.get_running_loop().time() + policy.deadline_s


def finish_reason(response: Any) -> str | None:
    """Return litellm's reason why the answer ended; None for a chunk that does not end it."""
    reason = _part(response, "finish_reason")
    return reason if isinstance(reason, str) else None


def _part(response: Any, part: str) -> Any:
    choices = getattr(response, "choices", None) or (None,)
    return getattr(choices[0], part, None)


def _message_text(message: Any) -> str | None:
    content = getattr(message, "content", None)
    return joined(content) if isinstance(content, str) and content else None


def with_cache(arguments: Mapping[str, Any], now_s: float | None = None) -> dict[str, Any]:
    """Return the arguments, with a cache mark on the system prompt if the cache will be read.

    One mark is enough: Anthropic caches what precedes it, and the tools precede the system prompt.

    Args:
        now_s: monotonic seconds.
    """
    now_s = time.monotonic() if now_s is None else now_s
    system, *others = arguments["messages"]
    prefix = [arguments["model"], arguments.get("tools"), system["content"]]
    digest = hashlib.sha256(json.dumps(prefix, default=str).encode()).digest()
    before = _sent.pop(digest, None)
    # Popped and put in again, so that the oldest are the first.
    _sent[digest] = now_s
    if len(_sent) > _MOST:
        del _sent[next(iter(_sent))]
    if before is None or now_s - before >= _KEPT_S:
        return dict(arguments)
    marked = {
        "type": "text",
        "text": system["content"],
        "cache_control": {"type": "ephemeral"},
    }
    return {**arguments, "messages": [{**system, "content": [marked]}, *others]}


# Of Chat Completions, of Anthropic and OpenAI's Responses, and of Gemini. A proxy may give the
# same count under the names of two.
_PROMPT_COUNTS: Final = (r"prompt_tokens", r"(cache_\w+_)?input_tokens", r"promptTokenCount")
_ANSWER_COUNTS: Final = (r"completion_tokens", r"output_tokens", r"(candidates|thoughts)TokenCount")


def token_counts(answer: Any) -> Any:
    """Return the token counts in a vendor's own answer, under the names of litellm's `Usage`."""
    found = answer if isinstance(answer, dict) else {}
    counted = found.get("usage") or found.get("usageMetadata")
    counts = counted if isinstance(counted, dict) else {}

    def total(names: str) -> int:
        return sum(
            each for name, each in counts.items() if re.fullmatch(names, name) and type(each) is int
        )

    return SimpleNamespace(
        prompt_tokens=max(map(total, _PROMPT_COUNTS)),
        completion_tokens=max(map(total, _ANSWER_COUNTS)),
    )


def usage_of(
    vendor: Vendor, model: str, counted: Any, prices: Mapping[str, Any], asked: int = 1
) -> Usage | None:
    """Return the usage of a completion; None if the vendor reported none.

    Args:
        counted: litellm's `Usage`; its prompt tokens include the cached ones.
        prices: litellm's `model_cost`, US dollars a token by model.
        asked: number of billable requests; each broken-off answer counts like this one.
    """
    prompt, answer = (
        _token_count(counted, "prompt_tokens"),
        _token_count(counted, "completion_tokens"),
    )
    # xAI counts reasoning in the total only.
    answer = max(answer, _token_count(counted, "total_tokens") - prompt)
    if prompt == answer == 0:
        return None
    price = _price_list(vendor, model, prices)
    cost = None if price is None else _cost_nanousd(price, counted, prompt, answer)
    return Usage(prompt * asked, answer * asked, None if cost is None else cost * asked)


def price_of(vendor: Vendor, model: str, prices: Mapping[str, Any], most: int) -> ModelPrice | None:
    """Return the highest rates of a model; None if the list lacks the base prices.

    Args:
        most: maximum number of tokens of an answer.
    """
    listed = _price_list(vendor, model, prices)
    if listed is None or not {"input_cost_per_token", "output_cost_per_token"} <= listed.keys():
        return None

    def dearest(*names: str) -> int:
        rates = [
            Decimal(repr(value))
            for name, value in listed.items()
            if isinstance(value, int | float) and _OF_SIZE.sub("", name) in names
        ]
        return int((max(rates) * _NANOUSD * 10**6).to_integral_value(ROUND_CEILING))

    return ModelPrice(
        dearest("input_cost_per_token", "cache_creation_input_token_cost"),
        dearest("output_cost_per_token"),
        most,
    )


def _price_list(vendor: Vendor, model: str, prices: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for name in (f"{vendor.prefix}/{model}", model):
        found = prices.get(name)
        if isinstance(found, Mapping) and found.get("litellm_provider") == vendor.prefix:
            return found
    return None


def _cost_nanousd(price: Mapping[str, Any], counted: Any, prompt: int, answer: int) -> int | None:
    """Return the cost in billionths of a dollar, rounded up once; None without base prices."""
    tiers = [int(found[1]) for name in price if (found := _TIER.fullmatch(name))]
    over = max((tier for tier in tiers if prompt > tier * 1000), default=None)
    suffix = "" if over is None else f"_above_{over}k_tokens"

    def rate(name: str) -> Decimal | None:
        value = price.get(name + suffix, price.get(name))
        # The list is JSON, and a float's repr is the number written there.
        return None if value is None else Decimal(repr(value))

    fresh, output = rate("input_cost_per_token"), rate("output_cost_per_token")
    if fresh is None or output is None:
        return None
    details = getattr(counted, "prompt_tokens_details", None)
    cached = min(prompt, _token_count(details, "cached_tokens"))
    written = min(prompt - cached, _token_count(details, "cache_creation_tokens"))
    read_price = rate("cache_read_input_token_cost")
    write_price = rate("cache_creation_input_token_cost")
    total = (
        (prompt - cached - written) * fresh
        + cached * (fresh if read_price is None else read_price)
        + written * (fresh if write_price is None else write_price)
        + answer * output
    )
    return int((total * _NANOUSD).to_integral_value(ROUND_CEILING))


def _token_count(counted: Any, name: str) -> int:
    value = getattr(counted, name, None)
    return value if isinstance(value, int) and value > 0 else 0


class Change(StrEnum):
    """A change of a request for a model that does not support an argument."""

    COMPLETION_TOKENS = "max_completion_tokens for max_tokens"
    MAX_TOKENS = "max_tokens for max_completion_tokens"
    NO_TEMPERATURE = "no temperature"
    NO_EFFORT = "no reasoning effort"
    NO_CACHE = "no prompt caching"


# OpenAI's reasoning models: gpt-5 and later ones, o1, o3, ...
_OPENAI_REASONING: Final = re.compile(r"(gpt-([5-9]|\d{2,})|o\d+)([.-].*)?")
# A pattern for the text of a 400, and the argument that must have been sent; the first match wins.
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


def adapt_arguments(
    vendor: Vendor, arguments: Mapping[str, Any], listed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments, adapted to the model as far as its parameters are known.

    Args:
        arguments: arguments of litellm's completion.
        listed: litellm's `model_cost`.
    """
    made = dict(arguments)
    model = str(made["model"]).removeprefix(f"{vendor.prefix}/")
    if f"{vendor.prefix}/{model}" not in listed and model not in listed:
        if vendor.prefix == "openai" and _OPENAI_REASONING.fullmatch(model):
            made = apply_change(apply_change(made, Change.COMPLETION_TOKENS), Change.NO_TEMPERATURE)
        if "reasoning_effort" in made:
            # litellm leaves it out where it does not know that the model reasons.
            made["allowed_openai_params"] = ["reasoning_effort"]
            if vendor.prefix == "anthropic":
                # Anthropic refuses another than its default beside thinking.
                made = apply_change(made, Change.NO_TEMPERATURE)
    for change in _learned.get(_model_key(vendor, made), ()):
        made = apply_change(made, change)
    return made


def correction_for(arguments: Mapping[str, Any], error: BaseException) -> Change | None:
    """Return the change of the request that would avoid a vendor's refusal of a parameter."""
    if getattr(error, "status_code", None) not in _REFUSED:
        return None
    text = str(error)
    for pattern, argument, change in _NAMED:
        if (
            argument in arguments
            and pattern.search(text)
            and apply_change(arguments, change) != arguments
        ):
            return change
    return None


def remember_change(vendor: Vendor, arguments: Mapping[str, Any], change: Change) -> None:
    """Remember a change, so that later requests to this model and address are sent with it."""
    if len(_learned) >= _KEPT:
        _learned.clear()
    key = _model_key(vendor, arguments)
    known = _learned.get(key, ())
    if change not in known:
        _learned[key] = (*known, change)


def apply_change(arguments: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return a copy of the arguments with the change, which is equal if nothing changes."""
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
            made["messages"] = [_without_cache_marks(each) for each in made["messages"]]
    return made


def _without_cache_marks(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    return {**message, "content": "".join(part["text"] for part in content)}


def _model_key(vendor: Vendor, arguments: Mapping[str, Any]) -> tuple[str, str, str]:
    return vendor.name, str(arguments["model"]), str(arguments["api_base"])
