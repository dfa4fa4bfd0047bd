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
class Patience:
    """How long and how often a vendor is asked.

    Attributes:
        deadline_s: seconds for everything, attempts and waits, to the last byte.
        attempts: at most.
        first_wait_s: longest wait after the first failure; doubled after each.
        longest_wait_s: most it grows to; a vendor's own `Retry-After` may be longer.
        sleep: waits so many seconds.
        jitter: a number of [0, 1).
    """

    deadline_s: float = 120.0
    attempts: int = 4
    first_wait_s: float = 1.0
    longest_wait_s: float = 16.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def wait_s(self, failed: int, retry_after_s: float | None) -> float:
        """Seconds to wait after so many failures: what the vendor asked, or the upper half of the
        backoff by chance, so that many agents do not come back at once."""
        backoff = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (failed - 1))
        if retry_after_s is not None:
            return retry_after_s + self.jitter() * min(backoff, 1.0)
        return backoff * (0.5 + self.jitter() / 2)


PATIENCE = Patience()


async def retried(
    attempt: Callable[[], Awaitable[T | Failure]], patience: Patience, ends_at: float
) -> T:
    """The first result that is no failure.

    Args:
        ends_at: the deadline by the running loop's clock.

    Raises:
        ProviderError: of the last failure, when no attempt is left, a wait would outlast the
            deadline, or trying again is of no use.
    """
    failed = 0
    while True:
        result = await attempt()
        if not isinstance(result, Failure):
            return result
        failed += 1
        wait_s = patience.wait_s(failed, result.retry_after_s)
        left_s = ends_at - asyncio.get_running_loop().time()
        if not result.retryable or failed >= patience.attempts or wait_s >= left_s:
            raise result.error
        await patience.sleep(wait_s)
