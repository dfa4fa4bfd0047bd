"""Batches of work from many cycles: items that arrive while a batch runs make up the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# Limits the time that a transaction blocks SQLite's only writer to a few milliseconds.
BATCH = 64
LINGER_S = 0.02


class Batcher(Generic[K, V]):
    """Runs items in batches: items that arrive while a batch runs form the next batch.

    A thousand agents enter and leave a thousand cycles a second; a transaction for each would cost
    more processor time than everything else in a cycle together. A single item runs at once. If a
    batch fails, each of its items runs again alone, so that one item's failure does not fail the
    others.

    Args:
        run: maps items to results, in their order.
        max_items: the maximum number of items in one batch.
        linger_s: seconds between two batches while more than one item arrives at a time.
    """

    def __init__(
        self,
        run: Callable[[Sequence[K]], Awaitable[Sequence[V]]],
        max_items: int = BATCH,
        linger_s: float = LINGER_S,
    ) -> None:
        self._run = run
        self._max_items = max_items
        self._linger_s = linger_s
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._worker: asyncio.Task[None] | None = None

    def __call__(self, item: K) -> asyncio.Future[V]:
        """Return the item's result, or raise `run`'s error. Cancelling does not stop the batch."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._run_batches())
        return future

    async def _run_batches(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._max_items]
                del self._waiting[: self._max_items]
                await self._run_batch(batch)
                if len(batch) > 1:
                    # More items are likely soon, and a larger batch costs less for each of them.
                    await asyncio.sleep(self._linger_s)
        finally:
            self._worker = None
            for _item, future in self._waiting:
                future.cancel()
            self._waiting.clear()

    async def _run_batch(self, batch: Sequence[tuple[K, asyncio.Future[V]]]) -> None:
        try:
            results = await self._run([item for item, _future in batch])
        except asyncio.CancelledError:
            for _item, future in batch:
                future.cancel()
            raise
        except Exception as error:
            if len(batch) > 1:
                for each in batch:
                    await self._run_batch([each])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for (_item, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
