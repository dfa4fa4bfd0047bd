"""The embedded runner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from solward.agents import placement
from solward.agents.cycle import NextCycle, RunCycle
from solward.agents.placement import EmbeddedPlacement
from solward.database.database import Database
from solward.support.clock import now_ms

MakeRunner = Callable[..., EmbeddedPlacement]


@pytest.fixture
async def make() -> AsyncIterator[MakeRunner]:
    made: list[EmbeddedPlacement] = []

    def build(run: RunCycle, concurrency: int = 10) -> EmbeddedPlacement:
        made.append(EmbeddedPlacement(cast("Database", None), run, concurrency=concurrency))
        return made[-1]

    yield build
    for runner in made:
        await runner.close()


class Log:
    """Notes cycles and lets a test wait for a number of them."""

    def __init__(self, wanted: int) -> None:
        self.seen: list[tuple[str, int]] = []
        self.enough = asyncio.Event()
        self._wanted = wanted

    def note(self, agent_id: str, cycle: int) -> None:
        self.seen.append((agent_id, cycle))
        if len(self.seen) >= self._wanted:
            self.enough.set()


async def test_cycles_follow_each_other_as_they_say(make: MakeRunner) -> None:
    log = Log(3)

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        log.note(agent_id, cycle)
        return NextCycle(cycle + 1, now_ms() + 5)

    runner = make(run)
    await runner.begin("a", 1, now_ms())
    async with asyncio.timeout(5):
        await log.enough.wait()
    assert log.seen[:3] == [("a", 1), ("a", 2), ("a", 3)]


async def test_agents_run_in_order_of_their_due_time(make: MakeRunner) -> None:
    log, now = Log(3), now_ms()

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        log.note(agent_id, cycle)
        return None

    runner = make(run, 1)
    for agent_id, due_ms in (("late", now + 60), ("first", now), ("second", now + 30)):
        await runner.begin(agent_id, 1, due_ms)
    async with asyncio.timeout(5):
        await log.enough.wait()
    assert [agent_id for agent_id, _ in log.seen] == ["first", "second", "late"]


async def test_no_more_cycles_run_at_once_than_allowed(make: MakeRunner) -> None:
    running, most, log = 0, 0, Log(20)

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        log.note(agent_id, cycle)
        return None

    runner = make(run, 3)
    for number in range(20):
        await runner.begin(f"a{number}", 1, 0)
    async with asyncio.timeout(5):
        await log.enough.wait()
    assert most == 3


async def test_a_cycle_that_could_not_be_stored_is_run_again_under_its_number(
    make: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "RETRY_MS", 1)
    log = Log(2)

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        log.note(agent_id, cycle)
        if len(log.seen) == 1:
            raise OSError("disk full")
        return None

    runner = make(run)
    await runner.begin("a", 4, 0)
    async with asyncio.timeout(5):
        await log.enough.wait()
    assert log.seen == [("a", 4), ("a", 4)]


async def test_halt_answers_only_when_the_agent_does_nothing_more(make: MakeRunner) -> None:
    begun, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        begun.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            await release.wait()
            ended.set()
            raise
        return NextCycle(cycle + 1, 0)

    runner = make(run)
    await runner.begin("a", 1, 0)
    await begun.wait()
    halt = asyncio.create_task(runner.halt("a"))
    await asyncio.sleep(0)
    assert not halt.done()
    release.set()
    await halt
    assert ended.is_set()


async def test_a_halted_agent_can_be_scheduled_again(make: MakeRunner) -> None:
    log = Log(1)

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        log.note(agent_id, cycle)
        return NextCycle(cycle + 1, now_ms() + 60_000)

    runner = make(run)
    await runner.begin("a", 1, now_ms() + 60_000)
    await runner.halt("a")
    await runner.begin("a", 1, 0)
    async with asyncio.timeout(5):
        await log.enough.wait()
    await runner.halt("a")
    assert log.seen == [("a", 1)]


async def test_halting_at_the_very_end_of_a_cycle_gives_it_no_next_turn(make: MakeRunner) -> None:
    log = Log(2)

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        log.note(agent_id, cycle)
        return NextCycle(cycle + 1, 0)

    for turns in range(1, 8):
        runner = make(run)
        await runner.begin("a", 1, 0)
        for _ in range(turns):
            await asyncio.sleep(0)
        await runner.halt("a")
        before = len(log.seen)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(log.seen) == before


async def test_close_ends_everything_and_nothing_starts_again(make: MakeRunner) -> None:
    begun = asyncio.Event()

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        begun.set()
        await asyncio.Event().wait()
        return None

    runner = make(run)
    await runner.begin("a", 1, 0)
    await begun.wait()
    await runner.close()
    begun.clear()
    await runner.begin("a", 1, 0)
    await asyncio.sleep(0.01)
    assert not begun.is_set()
