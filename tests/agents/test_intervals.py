"""Turns stand on a grid from when a cycle was due: no drift, no past, no two at once."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import cast

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.agents import AGENT, Notebook, Scripted, parts

from solward.agents.cycle import NextCycle, run_cycle
from solward.agents.placement import EmbeddedPlacement
from solward.agents.remember import EnteredCycle
from solward.database.database import Database
from solward.runner import next_due_ms
from solward.support.clock import now_ms
from solward.types.provider import Completion, CompletionRequest

TIMES = st.integers(0, 2**42)
PAUSES = st.integers(1, 2**32)


@given(due_ms=TIMES, pause_ms=PAUSES, now_ms=TIMES)
@example(due_ms=1000, pause_ms=1000, now_ms=3000)
def test_the_next_turn_is_the_first_of_the_grid_that_is_still_to_come(
    due_ms: int, pause_ms: int, now_ms: int
) -> None:
    upcoming = next_due_ms(due_ms, pause_ms, now_ms)
    turns, rest = divmod(upcoming - due_ms, pause_ms)
    assert rest == 0
    assert turns >= 1
    assert upcoming > now_ms
    assert turns == 1 or upcoming - pause_ms <= now_ms


class Slow(Scripted):
    """Takes three intervals to answer, and counts how many ask at once."""

    def __init__(self, interval_ms: int, wanted: int) -> None:
        super().__init__()
        self.interval_ms = interval_ms
        self.wanted = wanted
        self.asking = self.most = 0
        self.enough = asyncio.Event()

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asking += 1
        self.most = max(self.most, self.asking)
        await asyncio.sleep(3 * self.interval_ms / 1000)
        self.asking -= 1
        self.requests.append(request)
        if len(self.requests) == self.wanted:
            self.enough.set()
        return Completion("Waiting.")


class Counting(Notebook):
    """A notebook that takes an agent on from where its last cycle left it."""

    async def enter(self, agent_id: str, cycle: int) -> EnteredCycle | None:
        due_ms = self.results[-1].next_run_ms if self.results else self.agent.next_run_ms
        return EnteredCycle(replace(self.agent, cycle_no=cycle, next_run_ms=due_ms), ())


async def test_a_cycle_slower_than_its_interval_never_overlaps_itself() -> None:
    interval_ms, begun_ms = 10, now_ms()
    slow = Slow(interval_ms, wanted=5)
    agent = replace(AGENT, loop_interval_ms=interval_ms, next_run_ms=begun_ms)
    notebook = Counting(agent)
    run = functools.partial(run_cycle, parts=parts(slow, notebook, clock=now_ms))
    runner = EmbeddedPlacement(cast("Database", None), run)
    try:
        await runner.begin("a1", 1, begun_ms)
        async with asyncio.timeout(20):
            while not slow.enough.is_set():
                await asyncio.sleep(interval_ms / 1000)
                if slow.asking:
                    # What a start of an agent at work asks for: it changes nothing.
                    await runner.begin("a1", 1, 0)
    finally:
        await runner.close()
    assert slow.most == 1
    cycles = [decision.cycle for decision in notebook.decisions]
    assert cycles == list(range(1, len(cycles) + 1))
    for result, decision in zip(notebook.results, notebook.decisions, strict=True):
        assert (result.next_run_ms - begun_ms) % interval_ms == 0
        assert result.next_run_ms > decision.created_ms


async def test_one_agents_slow_cycle_holds_up_no_other() -> None:
    release, others = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def run(agent_id: str, cycle: int) -> NextCycle | None:
        if agent_id == "slow":
            await release.wait()
            return None
        seen.append(agent_id)
        if len(seen) == 20:
            others.set()
        return NextCycle(cycle + 1, now_ms())

    runner = EmbeddedPlacement(cast("Database", None), run, concurrency=2)
    try:
        await runner.begin("slow", 1, 0)
        await runner.begin("quick", 1, 0)
        async with asyncio.timeout(10):
            await others.wait()
    finally:
        release.set()
        await runner.close()
    assert set(seen) == {"quick"}
