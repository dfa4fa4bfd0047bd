"""One completion of a vendor's model, whole or in pieces, through litellm."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from solward import (
    Completion,
    CompletionRequest,
    ProviderContext,
    ProviderError,
    Usage,
    json_safe,
    tool_definitions,
)
from solward_plugins.llm.answer import completion_of, piece_of
from solward_plugins.llm.failures import Failure, failure_of, too_late, unusable
from solward_plugins.llm.library import library
from solward_plugins.llm.retries import PATIENCE, Patience, retried
from solward_plugins.llm.usage import usage_of
from solward_plugins.llm.vendor import DEFAULT_MAX_TOKENS, Vendor

# What a server without keys is sent, because clients send one always.
NO_KEY = "no-key-needed"

# It becomes part of an address (Gemini) and of litellm's routing (`responses/`).
_MODEL = re.compile(r"(?!responses/)[A-Za-z0-9][\w.:@+-]*(/[A-Za-z0-9_@][\w.:@+-]*)*", re.ASCII)
_LONGEST_MODEL = 200


async def complete(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    patience: Patience = PATIENCE,
) -> Completion:
    """The model's answer.

    Raises:
        ProviderError: without a key, or when the vendor refused, failed or did not answer in time.
    """
    asked = arguments(vendor, request, options, context, patience)
    litellm, response = await _opened(vendor, request, context, asked, patience, _ends_at(patience))
    counted = getattr(response, "usage", None)
    return completion_of(response, usage_of(vendor, request.model, counted, litellm.model_cost))


async def stream(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    patience: Patience = PATIENCE,
) -> AsyncGenerator[str | Usage, None]:
    """The answer's text as it comes, then its usage; tried again only before its first piece.

    Raises:
        ProviderError: as `complete`, also in the middle.
    """
    asked = arguments(vendor, request, options, context, patience)
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    ends_at = _ends_at(patience)
    litellm, opened = await _opened(vendor, request, context, asked, patience, ends_at)
    chunks, chunk = opened
    counted, said = None, False
    try:
        while chunk is not None:
            counted = getattr(chunk, "usage", None) or counted
            if piece := piece_of(chunk):
                said = True
                yield piece
            following = await _next(vendor, request, context, chunks, patience, ends_at)
            # Raised here, not where it was caught: its context would be the vendor's own error.
            if isinstance(following, Failure):
                raise following.error
            chunk = following
    finally:
        with suppress(Exception):
            await chunks.aclose()
    usage = usage_of(vendor, request.model, counted, litellm.model_cost)
    if usage is not None:
        yield usage
    elif not said:
        raise unusable(vendor, context)


def arguments(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
    patience: Patience,
) -> dict[str, Any]:
    """What litellm is called with; nothing of it is shared with a later call.

    Raises:
        ProviderError: no key, or a model's name that is none.
    """
    if context.secret is None and context.base_url is None:
        raise ProviderError(f"The key of {vendor.company} is missing; set {vendor.key_env}")
    if len(request.model) > _LONGEST_MODEL or not _MODEL.fullmatch(request.model):
        raise ProviderError(f"{request.model[:80]!r} is no name of a model; set another llmModel")
    most = options.get("maxTokens", DEFAULT_MAX_TOKENS)
    if request.max_output_tokens is not None:
        most = min(most, request.max_output_tokens)
    asked: dict[str, Any] = {
        "model": f"{vendor.prefix}/{request.model}",
        "messages": [
            {"role": "system", "content": request.system},
            *({"role": each.role, "content": each.content} for each in request.messages),
        ],
        "api_key": context.secret or NO_KEY,
        "api_base": context.base_url or vendor.address,
        "max_tokens": most,
        "timeout": patience.deadline_s,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
    }
    if "temperature" in options:
        asked["temperature"] = json_safe(options["temperature"])
    if "reasoningEffort" in options:
        asked["reasoning_effort"] = options["reasoningEffort"]
    if request.tools:
        asked["tools"] = tool_definitions(request.tools, narrow=vendor.narrow_schemas)
    return asked


async def _opened(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    asked: Mapping[str, Any],
    patience: Patience,
    ends_at: float,
) -> tuple[Any, Any]:
    """litellm, and what it answered in the first attempt that did not fail."""

    async def attempt() -> Any:
        try:
            # The lists are copied each time, because Gemini's route rewrites the tools in place.
            response = await litellm.acompletion(**json_safe(asked))
        except Exception as error:
            return failure_of(vendor, request, context, error)
        if not asked.get("stream"):
            return response
        # Only the first chunk tells for all vendors that the request was taken.
        first = await _next(vendor, request, context, response, patience, ends_at)
        return first if isinstance(first, Failure) else (response, first)

    with suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            litellm = await library(vendor)
            return litellm, await retried(attempt, patience, ends_at)
    raise too_late(vendor, patience.deadline_s)


async def _next(
    vendor: Vendor,
    request: CompletionRequest,
    context: ProviderContext,
    chunks: AsyncIterator[Any],
    patience: Patience,
    ends_at: float,
) -> Any:
    """The next chunk, None after the last, or the failure."""
    try:
        async with asyncio.timeout_at(ends_at):
            return await anext(chunks, None)
    except TimeoutError:
        return Failure(too_late(vendor, patience.deadline_s))
    except Exception as error:
        return failure_of(vendor, request, context, error)


def _ends_at(patience: Patience) -> float:
    return asyncio.get_running_loop().time() + patience.deadline_s
