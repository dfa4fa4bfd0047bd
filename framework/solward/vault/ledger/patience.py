"""Lets a ledger call wait for a node until its caller's deadline, which is stored here.

A call waits only where a deadline is set: by the HTTP server for a request, by the engine for a
transaction, by an agent's cycle for its reads. Work that polls anyway (the sender, the start) sets
no deadline, and fails at once without an answer.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from solward.types.errors import LedgerUnavailable

# The limit for the reads of a request, a plugin or an agent's cycle.
READ_WAIT_S: Final = 15.0
# The pause between the tries of a call that no node answered.
FIRST_PAUSE_S: Final = 0.25
MAX_PAUSE_S: Final = 4.0
# Callers that wait for the same moment spread their next tries over this time.
_SPREAD_S: Final = 0.25

T = TypeVar("T")

_deadline: ContextVar[float | None] = ContextVar("ledger_deadline", default=None)


class NodeBusy(LedgerUnavailable):
    """Raised if a node is busy; it need not be asked again before it is ready.

    Attributes:
        wait_s: how long the node asks to wait; None if it does not say.
        method_only: whether the node's other methods answer meanwhile.
        refused: whether the node was asked; False if an earlier answer told that it is busy.
    """

    def __init__(
        self, text: str, wait_s: float | None, *, method_only: bool = False, refused: bool = True
    ) -> None:
        super().__init__(text)
        self.wait_s = wait_s
        self.method_only = method_only
        self.refused = refused


class NodeDenies(LedgerUnavailable):
    """Raised if a node does not serve this caller (wrong key or path), so waiting does not help."""


@contextmanager
def within(seconds: float, *, own: bool = False) -> Iterator[None]:
    """Let the ledger calls of this block wait for nodes, for `seconds` in total.

    Args:
        own: whether the block goes on after its caller has left. If so, the caller's deadline does
            not count; otherwise the earlier of both deadlines does.
    """
    deadline = time.monotonic() + seconds
    outer = _deadline.get()
    if outer is not None and not own:
        deadline = min(outer, deadline)
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left(default: float = 0.0) -> float:
    """Return the seconds until the deadline, 0 once it has passed; `default` if none is set."""
    deadline = _deadline.get()
    return default if deadline is None else max(0.0, deadline - time.monotonic())


async def pause(seconds: float) -> bool:
    """Wait if the deadline allows the wait; else return False at once."""
    if seconds >= seconds_left():
        return False
    await asyncio.sleep(seconds)
    return True


async def retry_patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the outcome of `attempt`; retry it while no node answers and the deadline allows.

    Raises:
        LedgerUnavailable: the error of the last try.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await attempt()
        except NodeDenies:
            raise
        except LedgerUnavailable as error:
            wait_s = error.wait_s if isinstance(error, NodeBusy) else None
            if wait_s is None:
                wait_s, pause_s = pause_s, min(2 * pause_s, MAX_PAUSE_S)
            # No secret depends on this random number.
            if not await pause(wait_s + random.uniform(0, _SPREAD_S)):  # noqa: S311
                raise
