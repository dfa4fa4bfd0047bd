"""Many small questions to the store asked as one: the work of a transaction is shared.

A thousand agents enter and leave a thousand cycles a second; a transaction for each would cost
more processor time than everything else in a cycle together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# Bounds how long a transaction holds the one writer of SQLite: a few milliseconds.
MOST = 64
LINGER_S = 0.02


class Batcher(Generic[K, V]):
    """Call it with a question; what is asked while a batch runs makes up the next one.

    A question asked alone is answered at once. Where a batch fails, each of its questions is
    asked again by itself, so that one that cannot be answered takes no other with it.

    Args:
        answer: answers many questions, in their order.
        most: questions in one batch.
        linger_s: seconds between two batches while more than one at a time ask.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[K]], Awaitable[Sequence[V]]],
        most: int = MOST,
        linger_s: float = LINGER_S,
    ) -> None:
        self._answer = answer
        self._most = most
        self._linger_s = linger_s
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, question: K) -> V:
        """The answer; raises what answering it raised. Cancelling does not stop the batch."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._most]
                del self._waiting[: self._most]
                await self._ask(batch)
                if len(batch) > 1:
                    # Others will ask soon: what a batch costs by itself is shared by more of them.
                    await asyncio.sleep(self._linger_s)
        finally:
            self._worker = None
            for _question, future in self._waiting:
                future.cancel()
            self._waiting.clear()

    async def _ask(self, batch: Sequence[tuple[K, asyncio.Future[V]]]) -> None:
        try:
            answers = await self._answer([question for question, _future in batch])
        except asyncio.CancelledError:
            for _question, future in batch:
                future.cancel()
            raise
        except Exception as error:
            if len(batch) > 1:
                for each in batch:
                    await self._ask([each])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for (_question, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
