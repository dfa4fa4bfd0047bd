"""Calls to an agent's provider, for a whole or a streamed answer, and the checks before them.

Each call has a deadline and metrics, and raises one type of error.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager
from typing import Any

import structlog

from solward.agents.agent import Agent
from solward.hosts.wire.failures import HostBug
from solward.plugins import LoadedProvider, Registry
from solward.settings import Settings
from solward.support.clean_text import cleaned
from solward.telemetry import metrics, tracing
from solward.telemetry.scrub import scrub_text
from solward.types.errors import (
    ConfigError,
    InvalidRequest,
    ModelRefused,
    ProviderError,
    SolwardError,
)
from solward.types.provider import (
    MAX_NANOUSD,
    MAX_TOKENS,
    Completion,
    CompletionRequest,
    ModelPrice,
    Usage,
    checked_completion,
    checked_usage,
    is_count,
)

# Built-in providers have their own deadlines; this deadline is for plugins that have none.
PROVIDER_TIMEOUT_S = 180.0
PRICE_TIMEOUT_S = 30.0

_NANO = 1e9
_END = object()

Complete = Callable[[CompletionRequest], Awaitable[Completion]]
Stream = Callable[[CompletionRequest], AsyncIterator[str | Usage]]

_log = structlog.get_logger(__name__)


async def complete(
    agent: Agent,
    provider: Complete,
    request: CompletionRequest,
    timeout_s: float = PROVIDER_TIMEOUT_S,
) -> Completion:
    """Return the provider's whole answer; any failure in its code raises `ProviderError`."""
    name = agent.llm_provider
    with (
        _provider_call(agent, f"Provider {name!r} did not answer within {timeout_s:g} s"),
        tracing.span("provider.complete", provider=name, model=request.model),
    ):
        async with asyncio.timeout(timeout_s):
            completion = checked_completion(await provider(request))
    _count_usage(name, completion.usage)
    return completion


async def stream(
    agent: Agent,
    provider: Stream,
    request: CompletionRequest,
    timeout_s: float = PROVIDER_TIMEOUT_S,
) -> AsyncGenerator[str | Usage, None]:
    """Yield the provider's answer as it arrives, then its usage; raises `complete`'s errors.

    Closing it closes the provider's generator.
    """
    name = agent.llm_provider
    source = provider(request)
    deadline = asyncio.get_running_loop().time() + timeout_s
    late = f"Provider {name!r} did not end its answer within {timeout_s:g} s"
    try:
        with _provider_call(agent, late):
            while True:
                # The deadline covers the provider only: a timeout around the `yield` would cancel
                # a slow reader.
                async with asyncio.timeout_at(deadline):
                    piece = await anext(source, _END)
                if piece is _END:
                    return
                if not isinstance(piece, str | Usage):
                    raise ProviderError(f"Provider {name!r} streamed a piece that is not text")
                if isinstance(piece, Usage):
                    _count_usage(name, checked_usage(piece))
                    yield piece
                else:
                    yield cleaned(piece)
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


@contextmanager
def _provider_call(agent: Agent, late: str) -> Iterator[None]:
    """Count and time the block as one call; turn its exceptions into `ProviderError`."""
    name = agent.llm_provider
    outcome = "error"
    try:
        with metrics.PROVIDER_CALL.labels(name).time():
            yield
        outcome = "ok"
    except TimeoutError:
        outcome = "timeout"
        raise ProviderError(late, retryable=True, may_cost=True) from None
    except (asyncio.CancelledError, GeneratorExit):
        outcome = "cancelled"
        raise
    except ProviderError as error:
        # Scrubbed, because vendors quote keys in errors, and the text is stored and displayed.
        error.args = (cleaned(scrub_text(str(error))),)
        if isinstance(error, ModelRefused):
            outcome = "refused"
            error.said = cleaned(scrub_text(error.said))
        try:
            _count_usage(name, checked_usage(error.usage))
        except ProviderError:
            # The vendor's token count is not usable, so the reservation must stay counted.
            error.usage, error.may_cost = None, True
        raise error from None
    except SolwardError:
        raise
    except Exception as error:
        _log.exception("provider_failed", agent_id=agent.id, provider=name)
        text = f"Provider {name!r} failed with an internal error"
        raise ProviderError(text, may_cost=True) from error
    finally:
        metrics.PROVIDER_CALLS.labels(name, outcome).inc()


def _count_usage(provider: str, usage: Usage | None) -> None:
    if usage is None:
        return
    metrics.PROVIDER_TOKENS.labels(provider, "input").inc(usage.input_tokens)
    metrics.PROVIDER_TOKENS.labels(provider, "output").inc(usage.output_tokens)
    if usage.cost_nanousd is not None:
        metrics.PROVIDER_COST.labels(provider).inc(usage.cost_nanousd / _NANO)


def completer(settings: Settings, registry: Registry, agent: Agent) -> Complete:
    """Return the function that calls an agent's provider; raises `ProviderError` if missing."""
    loaded = installed_provider(registry, agent)
    return functools.partial(loaded.complete, **_call_arguments(settings, loaded, agent))


def streamer(settings: Settings, registry: Registry, agent: Agent) -> Stream:
    """Return the function that streams from an agent's provider; raises as `completer` does."""
    loaded = installed_provider(registry, agent)
    return functools.partial(loaded.stream, **_call_arguments(settings, loaded, agent))


def _call_arguments(settings: Settings, loaded: LoadedProvider, agent: Agent) -> dict[str, Any]:
    try:
        return {"options": agent.llm_options, "context": settings.provider_context(loaded.spec)}
    except ConfigError as error:
        raise ProviderError(str(error)) from None


async def price(registry: Registry, agent: Agent) -> ModelPrice | None:
    """Return the price of an agent's model, None if the provider does not know it.

    Raises:
        ProviderError: the provider is not installed.
    """
    loaded = installed_provider(registry, agent)
    try:
        async with asyncio.timeout(PRICE_TIMEOUT_S):
            found = await loaded.price(agent.llm_model, agent.llm_options)
    except Exception as error:
        # No traceback is logged: the plugin host logs the provider's bugs, and a cold start without
        # a network logs this once for each agent.
        _log.warning(
            "provider_price_failed",
            agent_id=agent.id,
            provider=agent.llm_provider,
            reason=_failure_text(error),
        )
        return None
    if not isinstance(found, ModelPrice):
        return None
    prices_fit = is_count(found.input_nanousd, MAX_NANOUSD) and is_count(
        found.output_nanousd, MAX_NANOUSD
    )
    if prices_fit and is_count(found.max_output_tokens, MAX_TOKENS):
        return found
    _log.warning("provider_price_out_of_range", agent_id=agent.id, provider=agent.llm_provider)
    return None


def _failure_text(error: Exception) -> str:
    """Return one line without secrets that says why a provider gave no price."""
    if isinstance(error, TimeoutError) and not str(error):
        return f"no answer within {PRICE_TIMEOUT_S:g} s"
    if isinstance(error, SolwardError | OSError):
        return " ".join(scrub_text(str(error)).split()) or type(error).__name__
    # Other errors may quote a secret that the provider has, so only their type is named.
    return f"an internal error ({error if isinstance(error, HostBug) else type(error).__name__})"


def installed_provider(registry: Registry, agent: Agent) -> LoadedProvider:
    """Return an agent's provider; raises `ProviderError` when it is not installed."""
    loaded = registry.providers.get(agent.llm_provider)
    if loaded is None:
        raise ProviderError(
            f"The provider {agent.llm_provider!r} is not loaded: install its plugin"
            " (`solward plugins list` shows which plugins are not loaded, and why),"
            " or give the agent another llmProvider"
        )
    return loaded


def check_options(provider: LoadedProvider, options: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest`, naming the option, if the provider does not accept an option."""
    try:
        provider.options.validate(dict(options))
    except InvalidRequest as error:
        raise InvalidRequest(f"llmOptions: {error}") from None


def check_startable(settings: Settings, registry: Registry, agent: Agent) -> None:
    """Raise `InvalidRequest` if the agent's provider is not installed or lacks its key."""
    try:
        spec = installed_provider(registry, agent).spec
        settings.provider_context(spec)
    except (ProviderError, ConfigError) as error:
        raise InvalidRequest(str(error)) from None
    if not settings.configured(spec):
        raise InvalidRequest(
            f"Set {spec.secret_env} to start an agent of the provider {spec.name!r}"
        )
