"""Background tasks end with their owners, also where a cancellation is lost."""

from __future__ import annotations

import asyncio

import pytest

from solward.service.holdings import _await_read
from solward.support.tasks import end, in_background


async def _losing(cancellations: int) -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancellations -= 1
            if cancellations < 0:
                raise


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_a_task_that_loses_a_cancellation_is_ended(lost: int) -> None:
    task = asyncio.create_task(_losing(lost))
    await asyncio.sleep(0)
    await asyncio.wait_for(end([task]), 10)
    assert task.cancelled()


async def test_work_beside_a_block_ends_with_it() -> None:
    async with in_background(asyncio.sleep(60), "beside"):
        (beside,) = [task for task in asyncio.all_tasks() if task.get_name() == "beside"]
    assert beside.cancelled()


async def test_a_reader_cancelled_as_its_answer_comes_is_cancelled() -> None:
    """`asyncio.wait_for` of Python 3.11 returns the answer, and the cancellation is lost."""
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def read() -> int:
        return await answer

    shared = asyncio.create_task(read())
    reader = asyncio.create_task(_await_read(shared))
    await asyncio.sleep(0.01)
    answer.set_result(1)
    while not shared.done():
        await asyncio.sleep(0)
    # The reader has not run since: its answer is there.
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
