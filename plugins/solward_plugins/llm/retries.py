"""Attempts within one total deadline: exponential backoff with jitter, `Retry-After` honoured."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from solward_plugins.llm.failures import Failure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Deadline and retries of a vendor's call.

    Attributes:
        deadline_s: seconds for all attempts and waits, to the last byte.
        attempts: most attempts.
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
        """Seconds to wait after `failed` failures: the vendor's `Retry-After`, or a random part of
        the backoff's upper half, so that many agents do not retry at once."""
        backoff = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (failed - 1))
        if retry_after_s is not None:
            return retry_after_s + self.jitter() * min(backoff, 1.0)
        return backoff * (0.5 + self.jitter() / 2)


DEFAULT_POLICY = RetryPolicy()


async def with_retries(
    attempt: Callable[[], Awaitable[T | Failure]], policy: RetryPolicy, ends_at: float
) -> T:
    """Repeat `attempt`; returns its first result that is no failure.

    Args:
        ends_at: the deadline by the running loop's clock.

    Raises:
        ProviderError: of the last failure, when no attempt is left, a wait would outlast the
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
