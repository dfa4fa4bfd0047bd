"""Cycles on workers: a due cycle is a job in procrastinate's queue, beside the agents' own rows.

Any process defers and halts; only workers (`solward.agents.worker`) run. A job is only a hint:
the fence decides whether its cycle is entered, may spend and is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import structlog
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from psycopg import AsyncConnection as Driver
from psycopg import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents.store import agents as agent_store
from solward.agents.store import jobs as store
from solward.agents.store import queue_tables
from solward.database.database import Database, try_lock_exclusive
from solward.support.clock import now_ms
from solward.types.errors import StoreError

# While a halt waits: how often the cycle's end and its worker's heartbeat are read.
POLL_S = 0.05
HEARTBEAT_CHECK_S = 0.5
# Workers without a heartbeat for so long are deleted.
PRUNE_S = 60.0
# A database that is away for longer ends the worker, whose jobs then go to others.
RETRIES_S = (0.05, 0.2, 1.0, 2.0, 4.0)
_POOL = 8

_log = structlog.get_logger(__name__)


class QueuePlacement:
    """Runs cycles on workers; see `Placement`.

    Args:
        clock: for what is due, in Unix milliseconds.

    Attributes:
        app: procrastinate's, which a worker opens; making and cancelling jobs needs no connection
            of its own.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = now_ms) -> None:
        self._database = database
        self._clock = clock
        connector = _PatientConnector(
            conninfo=database.conninfo, min_size=1, max_size=_POOL, configure=_hurried
        )
        self.app = App(connector=connector)

    async def open(self) -> None:
        """Create or check the queue's tables; workers find due cycles by themselves."""
        async with self._database.write() as connection:
            await queue_tables.prepare(connection)

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Create the job at once where the cycle is due; workers would within a second."""
        async with self._database.write() as connection:
            await self._defer(connection, 1, agent_id)

    async def sweep(self, most: int = store.BACKLOG) -> int:
        """Create jobs of due cycles, unless another process does; returns their number.

        Args:
            most: jobs that may wait in all.
        """
        async with self._database.write() as connection:
            if not await try_lock_exclusive(connection, "sweep"):
                return 0
            room = most - await store.count_waiting(connection)
            return await self._defer(connection, max(0, room))

    async def reap(self) -> tuple[int, int]:
        """Drop the jobs of dead workers, and let their agents be deferred again.

        A worker that was only slow finds its job gone when it ends it; the fence decides what it
        may still do for the agent.

        Returns:
            How many jobs were dropped, and how many agents may be deferred again.
        """
        jobs, dropped = self.app.job_manager, 0
        with queue_errors():
            for job in await jobs.get_stalled_jobs(seconds_since_heartbeat=store.STALLED_S):
                assert job.id is not None
                # Another worker may have dropped it.
                with contextlib.suppress(ConnectorException):
                    await jobs.finish_job_by_id_async(job.id, Status.FAILED, delete_job=True)
                    dropped += 1
            await jobs.prune_stalled_workers(PRUNE_S)
        async with self._database.write() as connection:
            return dropped, len(await store.rearm(connection, self._clock()))

    async def halt(self, agent_id: str) -> None:
        """See `Placement`. A run whose worker is dead or frozen loses its fence instead: it can
        neither spend nor be recorded any more."""
        async with self._database.write() as connection:
            await self._cancel(connection, agent_id)
        checked = 0.0
        while True:
            async with self._database.read() as connection:
                running = await agent_store.entered(connection, agent_id)
            if running is None:
                return
            if time.monotonic() - checked >= HEARTBEAT_CHECK_S:
                checked = time.monotonic()
                await self._revoke_if_dead(agent_id, running[0])
            else:
                await asyncio.sleep(POLL_S)

    async def close(self) -> None:
        """Nothing runs here."""

    async def _revoke_if_dead(self, agent_id: str, fence: int) -> None:
        async with self._database.write() as connection:
            if any((await store.jobs_of(connection, agent_id)).values()):
                # The job may have started after the first cancellation.
                await self._cancel(connection, agent_id)
            elif await agent_store.revoke_fence(connection, agent_id, fence):
                _log.warning("cycle_cut_off", agent_id=agent_id)

    async def _defer(
        self, connection: AsyncConnection, most: int, agent_id: str | None = None
    ) -> int:
        due = await store.take_due(connection, self._clock(), most, agent_id)
        # `batch_defer_async` of a task would give all of them one lock.
        made = [
            Job(
                queue=store.QUEUE,
                task_name=store.TASK,
                lock=each,
                queueing_lock=None,
                task_kwargs={"agent_id": each, "cycle": cycle},
            )
            for each, cycle in due
        ]
        if made:
            with queue_errors():
                jobs = self.app.job_manager
                await jobs.batch_defer_jobs_async(made, connection=await store.driver(connection))
        return len(made)

    async def _cancel(self, connection: AsyncConnection, agent_id: str) -> None:
        """Drop an agent's waiting jobs, and let its worker cancel the running one."""
        driver = await store.driver(connection)
        with queue_errors():
            for job_id in await store.jobs_of(connection, agent_id):
                await self.app.job_manager.cancel_job_by_id_async(
                    job_id, abort=True, delete_job=True, connection=driver
                )


@contextlib.contextmanager
def queue_errors() -> Iterator[None]:
    """Raise `StoreError` where the queue cannot be reached."""
    try:
        yield
    except ConnectorException as error:
        raise StoreError("The queue cannot be reached") from error


async def _hurried(connection: Driver[Any]) -> None:
    """Fetch and finish jobs without waiting for the disk: a power cut may bring back some of the
    last ones, and the fence turns their second run into nothing."""
    await connection.set_autocommit(True)
    await connection.execute("SET synchronous_commit = off")


class _PatientConnector(PsycopgConnector):
    """Ends jobs and renews heartbeats again where the database was away for a moment: a job that
    has no end blocks its agent as long as its worker lives."""

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """See `PsycopgConnector.execute_query_async`."""
        for pause_s in RETRIES_S:
            try:
                await super().execute_query_async(query, **arguments)
                return
            except ConnectorException as error:
                if not isinstance(error.__cause__, OperationalError):
                    raise
                _log.warning("jobs_not_ended", error=str(error.__cause__))
            await asyncio.sleep(pause_s)
        await super().execute_query_async(query, **arguments)
