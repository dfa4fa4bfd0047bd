"""Jobs fetched and finished many at a time, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from procrastinate import PsycopgConnector
from procrastinate.jobs import Job
from sqlalchemy import insert, text
from tests.support.database import WALLET_ROW, agent_row

from solward.agents.store import agents as agent_store
from solward.agents.store import jobs as store
from solward.agents.worker import BatchJobManager
from solward.database.database import Database
from solward.database.tables import wallets

NOW = 1_000_000


@pytest.fixture
async def database(postgres_database: Database) -> Database:
    async with postgres_database.write() as connection:
        await store.prepare(connection)
        await connection.execute(insert(wallets).values(WALLET_ROW))
        for number in range(6):
            row = agent_row(f"a{number}", next_run_ms=NOW - number)
            await agent_store.insert_agent(connection, row)
        assert await store.defer_due(connection, NOW) == 6
    return postgres_database


@pytest.fixture
async def jobs(database: Database) -> AsyncIterator[BatchJobManager]:
    connector = PsycopgConnector(conninfo=database.conninfo, min_size=1, max_size=4)
    await connector.open_async()
    yield BatchJobManager(connector)
    await connector.close_async()


async def worker(jobs: BatchJobManager) -> int:
    return await jobs.register_worker()


async def ended(jobs: BatchJobManager, taken: Sequence[Job]) -> None:
    await asyncio.gather(*(jobs.finish(job.id) for job in taken if job.id is not None))


async def left(database: Database) -> int:
    async with database.read() as connection:
        statement = text("SELECT count(*) FROM procrastinate_jobs")
        return int((await connection.execute(statement)).scalar_one())


async def test_what_was_due_first_is_taken_first_and_no_more_than_there_is_room(
    jobs: BatchJobManager,
) -> None:
    me = await worker(jobs)
    assert [job.lock for job in await jobs.fetch_jobs(me, 4)] == ["a5", "a4", "a3", "a2"]
    rest = await jobs.fetch_jobs(me, 4)
    assert [(job.lock, job.task_kwargs) for job in rest] == [
        ("a1", {"agent_id": "a1", "cycle": 1}),
        ("a0", {"agent_id": "a0", "cycle": 1}),
    ]
    assert await jobs.fetch_jobs(me, 4) == []


async def test_workers_that_take_at_once_never_get_the_same_job(jobs: BatchJobManager) -> None:
    workers = [await worker(jobs) for _ in range(3)]
    taken = await asyncio.gather(*(jobs.fetch_jobs(each, 2) for each in workers))
    # Who meets a row that another is taking passes it over.
    taken += [await jobs.fetch_jobs(each, 6) for each in workers]
    locks = [job.lock for some in taken for job in some]
    assert sorted(map(str, locks)) == [f"a{number}" for number in range(6)]


async def test_an_agents_second_job_waits_for_the_end_of_its_first(
    database: Database, jobs: BatchJobManager
) -> None:
    again = "UPDATE agents SET deferred_cycle = NULL WHERE id IN ('a1', 'a2')"
    async with database.write() as connection:
        await connection.execute(text(again))
        assert await store.defer_due(connection, NOW) == 2
    me = await worker(jobs)
    first = await jobs.fetch_jobs(me, 8)
    assert sorted(str(job.lock) for job in first) == [f"a{number}" for number in range(6)]
    assert await jobs.fetch_jobs(me, 8) == []
    await ended(jobs, first)
    second = await jobs.fetch_jobs(me, 8)
    assert [job.lock for job in second] == ["a2", "a1"]
    await ended(jobs, second)
    assert await left(database) == 0


async def test_a_job_that_is_gone_has_ended_and_takes_no_other_with_it(
    database: Database, jobs: BatchJobManager
) -> None:
    taken = await jobs.fetch_jobs(await worker(jobs), 3)
    async with database.write() as connection:
        gone = text("DELETE FROM procrastinate_jobs WHERE id = :id")
        await connection.execute(gone, {"id": taken[1].id})
    await ended(jobs, taken)
    assert await left(database) == 3
