"""Work on the vendors' loop: its own thread, its results, errors and ends here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from solward_plugins.llm.aside import aside, pieces_aside


async def thread_name() -> str:
    return threading.current_thread().name


async def test_work_runs_in_another_thread_and_its_result_comes_back() -> None:
    assert await aside(thread_name()) == await aside(thread_name()) == "vendors"
    assert await thread_name() != "vendors"


async def test_an_error_comes_back_as_it_was() -> None:
    async def fails() -> None:
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        await aside(fails())


async def test_busy_work_does_not_hold_up_this_loop() -> None:
    stop = threading.Event()

    async def busy() -> None:
        while not stop.is_set():
            pass

    work = asyncio.create_task(aside(busy()))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not work.done()
    stop.set()
    await work


async def test_cancelling_reaches_the_other_side() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    work = asyncio.create_task(aside(waits()))
    while not begun.is_set():
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert ended.wait(10)


class Generator:
    """Yields numbers, then waits for ever; takes its time to close."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.waiting = threading.Event()

    async def pieces(self) -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.closed.set()


async def test_pieces_come_in_order_and_a_consumer_that_stops_closes_their_source() -> None:
    source = Generator()
    async with aclosing(pieces_aside(source.pieces())) as pieces:
        assert [await anext(pieces), await anext(pieces)] == [1, 2]
    assert source.closed.is_set()


async def test_a_consumer_cancelled_while_it_waits_closes_the_source_and_hears_no_other_error() -> (
    None
):
    source = Generator()

    async def consume() -> None:
        async with aclosing(pieces_aside(source.pieces())) as pieces:
            async for _ in pieces:
                pass

    work = asyncio.create_task(consume())
    while not source.waiting.is_set():
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert source.closed.is_set()
