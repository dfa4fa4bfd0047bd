"""A worker in this process, on a real PostgreSQL: what a stop, a death and a rival do to cycles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from procrastinate import PsycopgConnector
from procrastinate.exceptions import ConnectorException
from psycopg import OperationalError
from sqlalchemy import text
from tests.support.agents import BODY, Host, agents_of, agents_wallet

from solward.agents import store
from solward.agents.agent import Agent
from solward.agents.cycle import run_cycle
from solward.agents.queue import QueuePlacement, Worker, WorkerLost
from solward.agents.service import AgentService
from solward.agents.store import running_cycle
from solward.database.database import Database
from solward.resources.agents import AgentStatus
from solward.types.errors import AgentNotFound, StoreError
from solward.types.provider import Completion, ToolCall

pytestmark = pytest.mark.samples(
    "test_a_started_agent_runs_at_once_and_again_when_it_is_due",
    "test_a_cycle_whose_worker_died_in_it_is_run_again_and_the_dead_ones_run_is_refused",
)

PAYING = Completion("Paying.", (ToolCall("pay", {}),))


@pytest.fixture
async def host(postgres_url: str, tmp_path: Path) -> AsyncIterator[Host]:
    database = await Database.open(postgres_url, tmp_path)
    await agents_wallet(database)
    yield Host(database)
    await database.close()


async def service_of(host: Host) -> AgentService:
    """The agents as another process of the same database has them, which runs none itself."""
    service = agents_of(host, lambda database, _run: QueuePlacement(database))
    await service.resume()
    return service


@pytest.fixture
async def service(host: Host) -> AgentService:
    return await service_of(host)


@asynccontextmanager
async def working(
    service: AgentService, host: Host, *, grace_s: float = 0.0
) -> AsyncIterator[Worker]:
    """A worker that is stopped, gracefully, at the end."""
    worker = Worker(host.database, service.run_cycle, grace_s=grace_s)
    task = asyncio.create_task(worker.run())

    async def ready() -> bool:
        assert not task.done()
        return await worker.ready()

    await until(ready)
    yield worker
    worker.stop()
    async with asyncio.timeout(30):
        await task


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.01)


async def running(host: Host, agent: Agent) -> tuple[int, int] | None:
    async with host.database.read() as connection:
        return await running_cycle(connection, agent.id)


async def jobs(host: Host) -> dict[str, int]:
    async with host.database.read() as connection:
        return await store.count_jobs(connection)


async def execute(host: Host, statement: str) -> None:
    async with host.database.write() as connection:
        await connection.execute(text(statement))


@pytest.mark.more
async def test_a_started_agent_runs_at_once_and_again_when_it_is_due(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY | {"loopIntervalMs": 1000})
    async with working(service, host):
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await service.start(agent.id)
        await host.decisions(1)
        assert loop.time() - begun < 3.0
        await host.decisions(2)
    cycles = [each.cycle for each in await service.decisions(agent.id)]
    assert cycles == list(range(len(cycles), 0, -1))
    assert (await service.get(agent.id)).status is AgentStatus.RUNNING


async def test_what_a_stopping_worker_cuts_off_another_runs_at_once(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    thinking = host.think_for_ever()
    async with working(service, host):
        await service.start(agent.id)
        await thinking.wait()
    assert await running(host, agent) is None
    assert await jobs(host) == {}
    host.answer = lambda: Completion("Here.")
    async with working(service, host):
        async with asyncio.timeout(store.STALLED_S):
            await host.decisions(1)
    assert [each.reasoning for each in await service.decisions(agent.id)] == ["Here."]


async def test_a_stopping_worker_lets_a_cycle_end_that_can_in_time(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    thinking = asyncio.Event()

    async def think() -> Completion:
        thinking.set()
        await asyncio.sleep(0.3)
        return Completion("In time.")

    host.answer = think
    async with working(service, host, grace_s=20.0):
        await service.start(agent.id)
        await thinking.wait()
    assert [each.reasoning for each in await service.decisions(agent.id)] == ["In time."]


async def test_a_cycle_whose_worker_died_in_it_is_run_again_and_the_dead_ones_run_is_refused(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    await service.start(agent.id)
    thinking, dies = asyncio.Event(), asyncio.Event()

    async def think() -> Completion:
        thinking.set()
        await dies.wait()
        return Completion("From the grave.")

    host.answer = think
    # The job of a worker that is gone, and its run, which goes on as a frozen one's would.
    await execute(host, "UPDATE procrastinate_jobs SET status = 'doing'")
    frozen = asyncio.create_task(run_cycle(agent.id, 1, agents_of(host).parts))
    await thinking.wait()
    host.answer = lambda: Completion("Taken over.")
    async with working(service, host):
        await host.decisions(1)
        dies.set()
        assert await frozen is None
    assert [each.reasoning for each in await service.decisions(agent.id)] == ["Taken over."]


async def test_a_cycle_that_could_not_be_stored_is_run_again(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    failures = iter([StoreError("disk full")])

    async def run(agent_id: str, cycle: int) -> object:
        for error in failures:
            raise error
        return await service.run_cycle(agent_id, cycle)

    worker = Worker(host.database, run, grace_s=0.0)  # type: ignore[arg-type]
    task = asyncio.create_task(worker.run())
    await service.start(agent.id)
    await host.decisions(1)
    worker.stop()
    await task
    assert [each.cycle for each in await service.decisions(agent.id)] == [1]


async def test_an_agent_deleted_in_its_cycle_is_gone_and_disturbs_nobody(
    host: Host, service: AgentService
) -> None:
    agent, other = await service.create(BODY), await service.create(BODY | {"name": "other"})
    thinking = host.think_for_ever()
    async with working(service, host):
        await service.start(agent.id)
        await thinking.wait()
        async with asyncio.timeout(5):
            await service.delete(agent.id)
        with pytest.raises(AgentNotFound):
            await service.get(agent.id)
        host.answer = lambda: Completion("Still here.")
        await service.start(other.id)
        await host.decisions(1)


async def test_starts_and_stops_from_several_processes_leave_the_last_wish(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    others = [await service_of(host) for _ in range(3)]
    async with working(service, host):
        for _ in range(3):
            asked = [each.start(agent.id) for each in others]
            asked += [each.stop(agent.id) for each in others]
            async with asyncio.timeout(30):
                await asyncio.gather(*asked)
        stopped = await service.stop(agent.id)
        before = await service.decisions(agent.id)
        assert (stopped.status, await running(host, agent)) == (AgentStatus.STOPPED, None)
        await others[0].start(agent.id)
        await until(lambda: _more(service, agent, len(before)))
    cycles = [each.cycle for each in await service.decisions(agent.id)]
    assert cycles == list(range(len(cycles), 0, -1))


async def _more(service: AgentService, agent: Agent, than: int) -> bool:
    return len(await service.decisions(agent.id)) > than


async def test_two_workers_share_the_agents_and_run_each_cycle_once(
    host: Host, service: AgentService
) -> None:
    host.answer = lambda: PAYING
    agents = [await service.create(BODY | {"name": f"a{number}"}) for number in range(20)]
    other = await service_of(host)
    async with working(service, host), working(other, host):
        for agent in agents:
            await service.start(agent.id)
        await host.decisions(20)
    assert sorted(key or "" for key in host.paid) == sorted(f"{agent.id}:1:pay" for agent in agents)


async def test_a_worker_the_queue_has_forgotten_ends_with_an_error(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    worker = Worker(host.database, service.run_cycle)
    task = asyncio.create_task(worker.run())
    await until(worker.ready)
    await execute(host, "DELETE FROM procrastinate_workers")
    assert await worker.ready() is False
    await service.start(agent.id)
    with pytest.raises(WorkerLost):
        async with asyncio.timeout(30):
            await task


async def test_a_job_whose_end_the_database_refused_once_does_not_hold_up_its_agent(
    host: Host, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await service.create(BODY | {"loopIntervalMs": 1000})
    execute_query = PsycopgConnector.execute_query_async
    refused = 0

    async def refusing(self: PsycopgConnector, query: Any, **values: Any) -> None:
        nonlocal refused
        if "finish_job" in query and not refused:
            refused += 1
            raise ConnectorException from OperationalError("the connection is lost")
        await execute_query(self, query, **values)

    monkeypatch.setattr(PsycopgConnector, "execute_query_async", refusing)
    async with working(service, host):
        await service.start(agent.id)
        await host.decisions(2)
    assert refused == 1
