"""Questions asked together: each has its own answer, or its own refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from solward.agents.batch import Batcher


class Answering:
    """Doubles numbers; refuses a batch with a negative one; can be held at the first batch."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    def hold(self) -> None:
        self.go.clear()

    async def __call__(self, questions: Sequence[int]) -> list[int]:
        self.batches.append(list(questions))
        self.begun.set()
        await self.go.wait()
        if min(questions) < 0:
            raise ValueError(f"{min(questions)} is negative")
        return [2 * question for question in questions]


async def held(answering: Answering, batcher: Batcher[int, int]) -> asyncio.Task[int]:
    """A first question whose batch is on its way until `go`; what is asked now has to wait."""
    answering.hold()
    first = asyncio.create_task(ask(batcher, 0))
    await answering.begun.wait()
    return first


async def ask(batcher: Batcher[int, int], question: int) -> int:
    return await batcher(question)


async def asked(batcher: Batcher[int, int], questions: Sequence[int]) -> list[asyncio.Task[int]]:
    """Tasks that all have asked and wait."""
    tasks = [asyncio.create_task(ask(batcher, question)) for question in questions]
    await asyncio.sleep(0)
    return tasks


async def test_a_question_alone_is_answered_at_once() -> None:
    answering = Answering()
    batcher = Batcher(answering)
    assert await batcher(21) == 42
    assert await batcher(1) == 2
    assert answering.batches == [[21], [1]]


async def test_what_is_asked_while_a_batch_runs_makes_up_the_next_in_its_order() -> None:
    answering = Answering()
    batcher = Batcher(answering)
    first = await held(answering, batcher)
    rest = await asked(batcher, [5, 3, 9, 3])
    answering.go.set()
    assert await asyncio.gather(first, *rest) == [0, 10, 6, 18, 6]
    assert answering.batches == [[0], [5, 3, 9, 3]]


async def test_while_several_ask_the_next_batch_lets_others_join() -> None:
    answering = Answering()
    batcher = Batcher(answering, linger_s=0.05)
    await asyncio.gather(*await asked(batcher, [1, 2]))
    one = await asked(batcher, [3])
    await asyncio.sleep(0)
    other = await asked(batcher, [4])
    assert await asyncio.gather(*one, *other) == [6, 8]
    assert answering.batches == [[1, 2], [3, 4]]


async def test_no_batch_is_larger_than_allowed() -> None:
    answering = Answering()
    batcher = Batcher(answering, max_items=3)
    first = await held(answering, batcher)
    rest = await asked(batcher, range(1, 8))
    answering.go.set()
    assert await asyncio.gather(first, *rest) == [2 * number for number in range(8)]
    assert answering.batches == [[0], [1, 2, 3], [4, 5, 6], [7]]


async def test_a_question_that_fails_takes_no_other_with_it() -> None:
    answering = Answering()
    batcher = Batcher(answering)
    first = await held(answering, batcher)
    rest = await asked(batcher, [1, -2, 3, -4])
    answering.go.set()
    answers = await asyncio.gather(first, *rest, return_exceptions=True)
    assert [str(answer) for answer in answers] == [
        "0",
        "2",
        "-2 is negative",
        "6",
        "-4 is negative",
    ]
    assert await batcher(7) == 14


async def test_a_caller_that_went_away_stops_nobody_elses_answer() -> None:
    answering = Answering()
    batcher = Batcher(answering)
    first = await held(answering, batcher)
    left, stays = await asked(batcher, [1, 2])
    left.cancel()
    first.cancel()
    answering.go.set()
    assert await stays == 4
    for gone in (left, first):
        with pytest.raises(asyncio.CancelledError):
            await gone
    assert await batcher(3) == 6


async def test_a_caller_gone_from_a_batch_that_fails_is_no_error() -> None:
    answering = Answering()
    batcher = Batcher(answering)
    first = await held(answering, batcher)
    left, stays = await asked(batcher, [-1, 2])
    left.cancel()
    answering.go.set()
    assert [await first, await stays] == [0, 4]


async def test_a_worker_that_is_ended_leaves_nobody_waiting() -> None:
    """As when the loop closes: those in the batch and those behind it are told."""
    answering = Answering()
    batcher = Batcher(answering)
    before = asyncio.all_tasks()
    first = await held(answering, batcher)
    [waiting] = await asked(batcher, [1])
    [worker] = asyncio.all_tasks() - before - {first, waiting}
    worker.cancel()
    for caller in (first, waiting):
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await caller
    answering.go.set()
    assert await batcher(4) == 8
