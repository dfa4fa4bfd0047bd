"""Tasks that run in the background until their owner closes, and work that outlasts its caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Collection, Coroutine
from typing import Any, TypeVar

# A task is cancelled again after this long.
AGAIN_S = 0.2

T = TypeVar("T")


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until each has ended; errors go to the event loop's handler.

    A library can lose a cancellation: before Python 3.12, `asyncio.wait_for` returns a result that
    came at the same time. The task would then continue, and its owner would wait for ever. So a
    task that continues is cancelled again.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _ended, left = await asyncio.wait(left, timeout=AGAIN_S)


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run work in the background during the block, and cancel it when the block ends."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await end([task])


async def run_to_end(work: Awaitable[T]) -> tuple[T, bool]:
    """Await `work` even if the caller is cancelled; return its result, and whether it was."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True
        except Exception:
            break
    return task.result(), cancelled
