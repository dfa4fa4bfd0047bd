"""Clocks that a test sets, waiting for a condition, and the cost of work in processor time."""

from __future__ import annotations

import asyncio
import inspect
import signal
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

# Processor time in units of the machine's own: a bound on work that a slow machine keeps too.

_TRIES = 3


async def until(holds: Callable[[], Any], what: str = "it", within_s: float = 30.0) -> None:
    """Wait until something holds, by a function or a coroutine; fail if it does not."""
    try:
        async with asyncio.timeout(within_s):
            while not (await found if inspect.isawaitable(found := holds()) else found):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true within {within_s:g} s") from None


def wait_until(holds: Callable[[], Any], what: str = "it", within_s: float = 60.0) -> Any:
    """What `holds` returns, once it is true; for what happens in other processes."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s:g} s"
        time.sleep(0.05)
    return found


def processor_cost(work: Callable[[], object]) -> float:
    """How many times a fixed piece of Python `work` costs; 7 ms each on the benchmarks' machine.

    The least of three tries of both, since what else runs on a processor slows it.
    """
    return min(_spent(work) for _ in range(_TRIES)) / processor_unit_s()


def processor_unit_s() -> float:
    """The processor seconds of that piece now, the least of three tries."""
    return min(_spent(_unit) for _ in range(_TRIES))


def _spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _unit() -> int:
    return sum(len(str(number)) for number in range(50_000))


# What a run needs beside pytest-timeout to end: that stops with a test's first exception.

REPEAT_S = 30
_SETTINGS = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """Repeat a test's alarm: an event loop may swallow the exception of the first."""
    result = yield
    item.stash[_SETTINGS] = settings
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, left, min(left, REPEAT_S))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give the fixtures of a failed test its time anew: what it waits for may hang them too."""
    if _SETTINGS in item.stash and not signal.getitimer(signal.ITIMER_REAL)[0]:
        settings = item.stash[_SETTINGS]
        item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
    return (yield)
