"""Processor time in units of the machine's own: a bound on work that a slow machine keeps too."""

from __future__ import annotations

import time
from collections.abc import Callable

_TRIES = 3


def cost(work: Callable[[], object]) -> float:
    """How many times a fixed piece of Python `work` costs; 7 ms each on the benchmarks' machine.

    The least of three tries of both, since what else runs on a processor slows it.
    """
    return min(_spent(work) for _ in range(_TRIES)) / unit_s()


def unit_s() -> float:
    """The processor seconds of that piece now, the least of three tries."""
    return min(_spent(_unit) for _ in range(_TRIES))


def _spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _unit() -> int:
    return sum(len(str(number)) for number in range(50_000))
