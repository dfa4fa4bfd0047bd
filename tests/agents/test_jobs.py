"""The queue of cycles on a real PostgreSQL: who is deferred when, and what becomes of lost jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, text
from tests.support.database import WALLET_ROW, agent_row, leaving_cycle

from solward.agents import queue, store
from solward.agents import remember as cycles
from solward.agents import store as agent_store
from solward.agents.queue import QueuePlacement
from solward.database.database import Database
from solward.database.tables import wallets

NOW = 1_000_000


@pytest.fixture
async def database(postgres_database: Database) -> Database:
    async with postgres_database.write() as connection:
        await queue.prepare(connection)
        await connection.execute(insert(wallets).values(WALLET_ROW))
    return postgres_database


async def made(database: Database, *rows: dict[str, Any]) -> None:
    async with database.write() as connection:
        for row in rows:
            await agent_store.insert_agent(connection, row)


async def sweep(database: Database, most: int = store.BACKLOG, now: int = NOW) -> int:
    return await QueuePlacement(database, lambda: now).sweep(most)


async def reap(database: Database) -> tuple[int, int]:
    """As a worker does: the jobs that were dropped, the agents that may be deferred again."""
    queue = QueuePlacement(database, lambda: NOW)
    async with queue.app.open_async():
        return await queue.reap()


async def rows(database: Database, statement: str, **values: Any) -> list[Any]:
    async with database.read() as connection:
        return list((await connection.execute(text(statement), values)).scalars())


async def run(database: Database, statement: str, **values: Any) -> None:
    async with database.write() as connection:
        await connection.execute(text(statement), values)


async def deferred(database: Database) -> list[str]:
    """The agents whose jobs wait, in the order in which workers get them."""
    return await rows(
        database, "SELECT lock FROM procrastinate_jobs WHERE status = 'todo' ORDER BY id"
    )


async def taken(database: Database, agent_id: str, *, beat_s: float | None = 0.0) -> None:
    """A worker whose last sign is `beat_s` seconds old has the agent's job; None: it is gone."""
    worker = None
    if beat_s is not None:
        async with database.write() as connection:
            statement = text(
                "INSERT INTO procrastinate_workers (last_heartbeat)"
                " VALUES (now() - make_interval(secs => :beat_s)) RETURNING id"
            )
            worker = (await connection.execute(statement, {"beat_s": beat_s})).scalar_one()
    await run(
        database,
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker WHERE lock = :agent",
        worker=worker,
        agent=agent_id,
    )


async def entered(database: Database, agent_id: str, cycle: int = 1) -> int:
    """Enter a cycle; its fence."""
    async with database.write() as connection:
        [row] = await cycles.enter(connection, [(agent_id, cycle)])
    assert row is not None
    return int(row["fence"])


async def left(database: Database, agent_id: str, fence: int, cycle: int = 1) -> bool:
    leaving = leaving_cycle(agent_id, fence, cycle, next_run_ms=NOW + 1)
    async with database.write() as connection:
        [was] = await cycles.leave(connection, [leaving])
    return was is not None


@pytest.mark.more
async def test_what_is_due_is_deferred_once_a_cycle_the_longest_due_first(
    database: Database,
) -> None:
    await made(
        database,
        agent_row("b", next_run_ms=NOW - 5),
        agent_row("a", next_run_ms=NOW),
        agent_row("c", next_run_ms=NOW - 9),
        agent_row("later", next_run_ms=NOW + 1),
        agent_row("paused", desired_state="paused"),
        agent_row("stopped", desired_state="stopped"),
    )
    assert await sweep(database) == 3
    assert await deferred(database) == ["c", "b", "a"]
    assert await sweep(database) == 0
    assert await rows(
        database, "SELECT args->>'cycle' FROM procrastinate_jobs WHERE lock = 'a'"
    ) == ["1"]

    await left(database, "a", await entered(database, "a"))
    assert await sweep(database) == 0, "its next cycle is due later"
    assert await sweep(database, now=NOW + 1) == 2


@pytest.mark.more
async def test_sweeps_at_the_same_time_defer_each_agent_once(database: Database) -> None:
    await made(database, *(agent_row(f"a{number:02}") for number in range(60)))
    counts = await asyncio.gather(*(sweep(database) for _ in range(6)))
    assert sum(counts) == 60
    assert sorted(await deferred(database)) == [f"a{number:02}" for number in range(60)]


async def test_a_sweep_that_fails_leaves_neither_job_nor_mark(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(database, agent_row("a"))

    async def cut_off(_connection: object) -> None:
        raise OSError("cut")

    monkeypatch.setattr(database, "before_commit", cut_off)
    with pytest.raises(OSError, match="cut"):
        await sweep(database)
    monkeypatch.undo()
    assert await deferred(database) == []
    assert await sweep(database) == 1


async def test_no_more_jobs_wait_than_the_backlog_holds_and_every_agent_gets_its_turn(
    database: Database,
) -> None:
    await made(database, *(agent_row(f"a{9 - due}", next_run_ms=due) for due in range(9)))
    ran: list[str] = []
    for turn in range(6):
        assert await sweep(database, 3) == 3
        assert await sweep(database, 3) == 0, "the backlog is full"
        for agent_id in await deferred(database):
            ran.append(agent_id)
            await run(database, "DELETE FROM procrastinate_jobs WHERE lock = :a", a=agent_id)
            await run(
                database,
                "UPDATE agents SET cycle_no = cycle_no + 1, next_run_ms = :due WHERE id = :a",
                a=agent_id,
                due=100 + turn,
            )
    assert ran[:9] == [f"a{9 - due}" for due in range(9)]
    assert sorted(ran[9:]) == sorted(ran[:9])


async def test_a_job_that_is_there_twice_is_entered_once(database: Database) -> None:
    await made(database, agent_row("a"))
    await sweep(database)
    await run(database, "UPDATE agents SET deferred_cycle = NULL")
    await sweep(database)
    assert await deferred(database) == ["a", "a"]
    fence = await entered(database, "a")
    assert await left(database, "a", fence)
    async with database.write() as connection:
        assert await cycles.enter(connection, [("a", 1)]) == [None]


@pytest.mark.parametrize("beat_s", [None, store.STALLED_S + 1])
async def test_an_agent_whose_worker_went_away_is_deferred_again(
    database: Database, beat_s: float | None
) -> None:
    await made(database, agent_row("a"), agent_row("waits"))
    await sweep(database)
    await taken(database, "a", beat_s=beat_s)
    await entered(database, "a")
    assert await reap(database) == (1, 1)
    assert await sweep(database) == 1
    assert await deferred(database) == ["waits", "a"]
    assert await entered(database, "a") == 2


async def test_an_agent_whose_worker_lives_is_left_to_it(database: Database) -> None:
    await made(database, agent_row("a"))
    await sweep(database)
    await taken(database, "a", beat_s=store.STALLED_S - 2)
    await entered(database, "a")
    assert await reap(database) == (0, 0)
    assert await sweep(database) == 0


async def test_a_job_that_ended_without_leaving_its_cycle_is_made_again(
    database: Database,
) -> None:
    await made(database, agent_row("a"))
    await sweep(database)
    await entered(database, "a")
    await run(database, "DELETE FROM procrastinate_jobs")
    assert await sweep(database) == 0
    async with database.write() as connection:
        assert await store.allow_new_jobs(connection, NOW) == ["a"]
    assert await sweep(database) == 1


async def test_reaping_waits_for_nobody_who_works_on_an_agent(database: Database) -> None:
    await made(database, agent_row("a"), agent_row("b"))
    await sweep(database)
    await run(database, "DELETE FROM procrastinate_jobs")
    async with database.write() as holds:
        await agent_store.get_agent(holds, "a", lock=True)
        async with asyncio.timeout(10), database.write() as connection:
            assert await store.allow_new_jobs(connection, NOW) == ["b"]


async def test_a_cycle_cut_off_in_the_middle_is_run_again_at_once(database: Database) -> None:
    await made(database, agent_row("a"))
    await sweep(database)
    stale = await entered(database, "a")
    fence = await entered(database, "a")
    async with database.write() as connection:
        await cycles.abandon(connection, "a", stale)
        assert await agent_store.running_cycle(connection, "a") is not None, "another run goes on"
        await cycles.abandon(connection, "a", fence)
        assert await agent_store.running_cycle(connection, "a") is None
    assert await sweep(database) == 1
    assert not await left(database, "a", stale)


async def test_begin_defers_one_agent_at_once_and_not_twice(database: Database) -> None:
    await made(database, agent_row("a"), agent_row("b"))
    placement = QueuePlacement(database, lambda: NOW)
    await placement.begin("a", 1, NOW)
    await placement.begin("a", 1, NOW)
    assert await deferred(database) == ["a"]


async def halted(database: Database, agent_id: str) -> None:
    await run(database, "UPDATE agents SET desired_state = 'stopped' WHERE id = :a", a=agent_id)
    async with asyncio.timeout(20):
        await QueuePlacement(database).halt(agent_id)


async def test_halting_drops_the_job_that_waits(database: Database) -> None:
    await made(database, agent_row("a"), agent_row("b"))
    await sweep(database)
    await halted(database, "a")
    assert await deferred(database) == ["b"]


@pytest.mark.parametrize("beat_s", [None, store.STALLED_S + 1])
async def test_halting_an_agent_of_a_dead_worker_takes_its_fence(
    database: Database, beat_s: float | None
) -> None:
    await made(database, agent_row("a"))
    await sweep(database)
    await taken(database, "a", beat_s=beat_s)
    fence = await entered(database, "a")
    await halted(database, "a")
    assert not await left(database, "a", fence), "the dead worker's run is over"
    assert await reap(database) == (1, 0)
    await run(database, "UPDATE agents SET desired_state = 'running'")
    assert await sweep(database) == 1
    assert await entered(database, "a") == fence + 2


async def test_halting_waits_for_the_worker_that_lives(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "HEARTBEAT_CHECK_S", 0.05)
    await made(database, agent_row("a"))
    await sweep(database)
    await taken(database, "a")
    fence = await entered(database, "a")
    halting = asyncio.create_task(halted(database, "a"))
    asked = "SELECT abort_requested FROM procrastinate_jobs"
    async with asyncio.timeout(10):
        while await rows(database, asked) != [True]:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert not halting.done()
    assert await left(database, "a", fence)
    await halting


async def test_the_queue_is_made_once_by_processes_that_start_together(
    postgres_url: str, tmp_path: Path
) -> None:
    opened = [await Database.open(postgres_url, tmp_path) for _ in range(3)]
    try:
        await asyncio.gather(*(QueuePlacement(each).open() for each in opened))
        await QueuePlacement(opened[0]).open()
        assert await sweep(opened[1]) == 0
    finally:
        for each in opened:
            await each.close()


async def test_jobs_and_beats_are_counted(database: Database) -> None:
    await made(database, agent_row("a"), agent_row("b"))
    await sweep(database)
    await taken(database, "b")
    [worker] = await rows(database, "SELECT id FROM procrastinate_workers")
    async with database.write() as connection:
        assert await store.count_jobs(connection) == {"todo": 1, "doing": 1}
        await connection.execute(text("UPDATE procrastinate_workers SET last_heartbeat = now()"
                                      " - interval '1 minute'"))  # fmt: skip
        assert await store.count_jobs(connection) == {"todo": 1, "stalled": 1}
        await connection.execute(text("UPDATE procrastinate_workers SET last_heartbeat = now()"))
        assert await store.count_workers(connection, [worker]) == 1
        await connection.execute(
            text("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '61 s'")
        )
        assert await store.count_workers(connection, [worker]) == 0
    await reap(database)
    assert await rows(database, "SELECT id FROM procrastinate_workers") == []
    async with database.read() as connection:
        assert await store.jobs_of(connection, "b") == {}
