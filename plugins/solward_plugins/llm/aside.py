"""An event loop in a thread of its own, for the vendors' calls.

A call through litellm with all skills as tools takes ten milliseconds of processor time and more
(`benchmarks/fleet.py`). A hundred of them due at once would hold up a server's own loop, and every
answer of it, for seconds; threads share the processor in slices of milliseconds.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_STOP_S = 1.0

_lock = threading.Lock()
_running: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None


async def aside(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the other loop; cancelling this cancels it there."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


async def pieces_aside(pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """What an async generator yields on the other loop; closed there with its consumer."""
    # A consumer that is cancelled closes what may still be running over there.
    turn = asyncio.Lock()

    async def take() -> T:
        async with turn:
            return await anext(pieces)

    async def close() -> None:
        async with turn:
            await pieces.aclose()

    try:
        while True:
            try:
                piece = await aside(take())
            except StopAsyncIteration:
                return
            yield piece
    finally:
        await aside(close())


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        if _running is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="vendors", daemon=True)
            thread.start()
            _running = (loop, thread)
            atexit.register(_stop, loop, thread)
        return _running[0]


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Leave nothing half awaited when the interpreter goes."""

    async def end() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        loop.stop()

    with suppress(RuntimeError):
        asyncio.run_coroutine_threadsafe(end(), loop)
        thread.join(_STOP_S)
