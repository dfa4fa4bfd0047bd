"""One completion of a vendor's model, whole or streamed, through litellm."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

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
from solward_plugins.llm.answer import completion_of, finish_reason, message_of, piece_of
from solward_plugins.llm.caching import with_cache
from solward_plugins.llm.failures import Failure, failure_of, too_late, unusable
from solward_plugins.llm.library import library
from solward_plugins.llm.parameters import Change, adapted, changed, correction, learn
from solward_plugins.llm.refusals import RefusalWatch, refused
from solward_plugins.llm.retries import DEFAULT_POLICY, RetryPolicy, with_retries
from solward_plugins.llm.usage import price_of, usage_of
from solward_plugins.llm.vendor import DEFAULT_MAX_TOKENS, Vendor

# Sent to a server without keys, because clients always send one.
NO_KEY = "no-key-needed"

# The name becomes part of an address (Gemini) and of litellm's routing (`responses/`).
_MODEL = re.compile(r"(?!responses/)[A-Za-z0-9][\w.:@+-]*(/[A-Za-z0-9_@][\w.:@+-]*)*", re.ASCII)
_LONGEST_MODEL = 200


async def complete(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    policy: RetryPolicy = DEFAULT_POLICY,
) -> Completion:
    """The model's answer.

    Raises:
        ModelRefused: the vendor or its model would not answer.
        ProviderError: without a key, or when the vendor refused, failed or did not answer in time.
    """
    arguments = litellm_arguments(vendor, request, options, context, policy)
    opened = await _opened(vendor, request, context, arguments, policy, _ends_at(policy))
    litellm, response, watch = opened
    counted = getattr(response, "usage", None)
    usage = usage_of(vendor, request.model, counted, litellm.model_cost)
    completion = completion_of(response, usage)
    watch.answered(message_of(response))
    is_empty = completion.text is None and not completion.tool_calls
    refusal = watch.refusal(finish_reason(response), is_empty)
    if refusal is not None:
        raise refused(vendor, *refusal, usage, may_cost=True)
    return completion


async def price(vendor: Vendor, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
    """The dearest rates of a model by the price list, None where it is not in it."""
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
    """The answer's text as it arrives, then its usage; retried only before its first piece.

    Raises:
        ModelRefused, ProviderError: as `complete`, also after pieces.
    """
    arguments = litellm_arguments(vendor, request, options, context, policy)
    arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    ends_at = _ends_at(policy)
    opened = await _opened(vendor, request, context, arguments, policy, ends_at)
    litellm, (chunks, chunk), watch = opened
    counted, streamed, finish = None, False, None
    try:
        while chunk is not None:
            finish = finish_reason(chunk) or finish
            counted = getattr(chunk, "usage", None) or counted
            if piece := piece_of(chunk):
                streamed = True
                yield piece
            following = await _next(vendor, request, context, chunks, policy, ends_at)
            # Raised here and not in `_next`, where its context would be the vendor's own error.
            if isinstance(following, Failure):
                raise following.error
            chunk = following
    finally:
        with suppress(Exception):
            await chunks.aclose()
    usage = usage_of(vendor, request.model, counted, litellm.model_cost)
    if usage is not None:
        yield usage
    refusal = watch.refusal(finish, is_empty=not streamed)
    if refusal is not None:
        raise refused(vendor, *refusal, may_cost=True)
    if usage is None and not streamed:
        raise unusable(vendor, context)


def litellm_arguments(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    policy: RetryPolicy,
) -> dict[str, Any]:
    """The arguments of litellm's completion; later calls share none of them.

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


async def _opened(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    arguments: Mapping[str, Any],
    policy: RetryPolicy,
    ends_at: float,
) -> tuple[Any, Any, RefusalWatch]:
    """litellm, its answer in the first attempt that did not fail, and what watched that one."""

    def tools() -> dict[str, Any]:
        # Others for each attempt, because Gemini's route rewrites them in place.
        made = tool_definitions(request.tools, narrow=vendor.narrow_schemas)
        return {"tools": made} if made else {}

    async def attempt() -> Any:
        sent = with_cache({**arguments, **tools()}) if vendor.caches_on_request else arguments
        sent = adapted(vendor, sent, litellm.model_cost)
        made: set[Change] = set()
        while True:
            watch = RefusalWatch()
            try:
                named = {**sent, "messages": json_safe(sent["messages"]), **tools()}
                response = await litellm.acompletion(**named, logger_fn=watch.logged)
                if arguments.get("stream"):
                    await watch.follow(response)
            except Exception as error:
                change = correction(sent, error)
                if change is None or change in made:
                    return failure_of(vendor, request, context, error)
                made.add(change)
                learn(vendor, sent, change)
                sent = changed(sent, change)
                continue
            if not arguments.get("stream"):
                return litellm, response, watch
            # With some vendors only the first chunk shows that the request was accepted.
            first = await _next(vendor, request, context, response, policy, ends_at)
            return first if isinstance(first, Failure) else (litellm, (response, first), watch)

    with suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            litellm = await library(vendor)
            opened: tuple[Any, Any, RefusalWatch] = await with_retries(attempt, policy, ends_at)
            return opened
    raise too_late(vendor, policy.deadline_s)


async def _next(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    chunks: AsyncIterator[Any],
    policy: RetryPolicy,
    ends_at: float,
) -> Any:
    """The next chunk, None after the last, or the failure."""
    try:
        async with asyncio.timeout_at(ends_at):
            return await anext(chunks, None)
    except TimeoutError:
        return Failure(too_late(vendor, policy.deadline_s))
    except Exception as error:
        return failure_of(vendor, request, context, error)


def _ends_at(policy: RetryPolicy) -> float:
    return asyncio.get_running_loop().time() + policy.deadline_s
