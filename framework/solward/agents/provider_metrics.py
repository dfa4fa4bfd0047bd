"""What asking a provider leaves behind: its count, its time, its tokens and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from solward.provider import Usage
from solward.telemetry import metrics

_NANO = 1e9


@contextmanager
def asking(provider: str) -> Iterator[None]:
    """Count and time the block as one call of a provider that is installed."""
    outcome = "error"
    try:
        with metrics.timed(metrics.PROVIDER_CALL.labels(provider)):
            yield
        outcome = "ok"
    except TimeoutError:
        outcome = "timeout"
        raise
    except (asyncio.CancelledError, GeneratorExit):
        outcome = "cancelled"
        raise
    finally:
        metrics.PROVIDER_CALLS.labels(provider, outcome).inc()


def count_usage(provider: str, usage: Usage | None) -> None:
    """Count what a completion took, as far as the vendor said."""
    if usage is None:
        return
    metrics.PROVIDER_TOKENS.labels(provider, "input").inc(max(0, usage.input_tokens))
    metrics.PROVIDER_TOKENS.labels(provider, "output").inc(max(0, usage.output_tokens))
    if usage.cost_nanousd is not None:
        metrics.PROVIDER_COST.labels(provider).inc(max(0, usage.cost_nanousd) / _NANO)
