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
    """Cancel tasks and wait until each has ended; their errors are for the loop's handler.

    A cancellation can be lost in a library: `asyncio.wait_for`, before Python 3.12, returns a
    result that came together with it. A loop would go on, and its owner would wait for ever. So
    a task that goes on is cancelled again.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _ended, left = await asyncio.wait(left, timeout=AGAIN_S)


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run work in the background during the block, and end it with the block."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await end([task])


async def run_to_end(work: Awaitable[T]) -> tuple[T, bool]:
    """Await `work` to its end even when cancelled; the flag says whether it was."""
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
