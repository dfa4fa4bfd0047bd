"""Cycles on workers. A due cycle is a job in procrastinate's queue, in the same PostgreSQL database
as the agents. This module has the placement, the worker and the queue's tables.

Any process may create or cancel a cycle's job; only workers run it. A job is only a hint: the fence
decides whether its cycle is entered, may spend and is recorded. Each worker's process also creates
jobs for due cycles and releases the jobs of dead workers, so that agents continue if one process is
killed or frozen. A process that is frozen while it creates jobs delays the others until the
database ends its transaction, after 10 s.

The installed release of procrastinate makes the tables. Each start compares them with the release,
and `solward database upgrade` upgrades them. A release ships its migrations as files, and does not
record which of them a database has. `queue_migrations` records each one, in the transaction that
applies it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import structlog
from procrastinate import App, PsycopgConnector
from procrastinate import __version__ as release
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.schema import SchemaManager
from procrastinate.worker import Worker as QueueWorker
from psycopg import AsyncConnection as Driver
from psycopg import OperationalError
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents import store
from solward.agents.cycle import RunCycle
from solward.database.database import Database, lock_exclusive, try_lock_exclusive
from solward.support.clock import now_ms
from solward.support.tasks import end
from solward.types.errors import SolwardError, StoreError

# While a halt waits: how often the cycle's end and its worker's heartbeat are read.
HALT_POLL_S = 0.05
HEARTBEAT_CHECK_S = 0.5
# Workers without a heartbeat for this long are deleted.
PRUNE_S = 60.0
# If the database is away for longer, the worker ends, and its jobs go to other workers.
RETRIES_S = (0.05, 0.2, 1.0, 2.0, 4.0)
_POOL = 8

# Most cycles wait for a model, so a worker runs many at once (measured: benchmarks/scale.py).
CONCURRENCY = 300
POLL_S = 1.0  # notifications wake the worker; this is for lost ones
HEARTBEAT_S = 2.0
# The time after `stop` in which cycles may end by themselves. Then they are cancelled, except
# actions that may spend, which are always finished.
GRACE_S = 5.0

# The interval at which jobs for due cycles are created, and jobs of dead workers released.
SWEEP_S = 0.2
REAP_S = 1.0

_log = structlog.get_logger(__name__)


class QueuePlacement:
    """Runs cycles on workers; see `Placement`.

    Args:
        clock: the time for due cycles, in Unix milliseconds.

    Attributes:
        app: procrastinate's app. A worker opens it; creating and cancelling jobs needs no separate
            connection.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = now_ms) -> None:
        self._database = database
        self._clock = clock
        connector = _PatientConnector(
            conninfo=database.conninfo, min_size=1, max_size=_POOL, configure=_skip_disk_sync
        )
        self.app = App(connector=connector)

    async def open(self) -> None:
        """Create or check the queue's tables; workers then find due cycles by themselves."""
        async with self._database.write() as connection:
            await prepare(connection)

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Create the cycle's job now if it is due; workers would create it within a second."""
        async with self._database.write() as connection:
            await self._create_jobs(connection, 1, agent_id)

    async def sweep(self, most: int = store.BACKLOG) -> int:
        """Create jobs for due cycles unless another process is doing so; return the number of jobs.

        Args:
            most: the maximum number of waiting jobs in all.
        """
        async with self._database.write() as connection:
            if not await try_lock_exclusive(connection, "sweep"):
                return 0
            room = most - await store.count_waiting(connection)
            return await self._create_jobs(connection, max(0, room))

    async def reap(self) -> tuple[int, int]:
        """Drop the jobs of dead workers, so that new jobs can be created for their agents.

        A worker that was only slow finds its job gone at the end; the fence decides what it may
        still do for the agent.

        Returns:
            The number of dropped jobs, and the number of agents that may get a new job.
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
            return dropped, len(await store.allow_new_jobs(connection, self._clock()))

    async def halt(self, agent_id: str) -> None:
        """See `Placement`. If the worker is dead or frozen, its run loses the fence, and can
        neither spend nor be recorded."""
        async with self._database.write() as connection:
            await self._cancel_jobs(connection, agent_id)
        checked = 0.0
        while True:
            async with self._database.read() as connection:
                running = await store.running_cycle(connection, agent_id)
            if running is None:
                return
            if time.monotonic() - checked >= HEARTBEAT_CHECK_S:
                checked = time.monotonic()
                await self._revoke_if_dead(agent_id, running[0])
            else:
                await asyncio.sleep(HALT_POLL_S)

    async def close(self) -> None:
        """Do nothing: no cycle runs in this process."""

    async def _revoke_if_dead(self, agent_id: str, fence: int) -> None:
        async with self._database.write() as connection:
            if any((await store.jobs_of(connection, agent_id)).values()):
                # The job may have started after the first cancellation.
                await self._cancel_jobs(connection, agent_id)
            elif await store.revoke_fence(connection, agent_id, fence):
                _log.warning("cycle_cut_off", agent_id=agent_id)

    async def _create_jobs(
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

    async def _cancel_jobs(self, connection: AsyncConnection, agent_id: str) -> None:
        """Drop an agent's waiting jobs, and let its worker cancel the running one."""
        driver = await store.driver(connection)
        with queue_errors():
            for job_id in await store.jobs_of(connection, agent_id):
                await self.app.job_manager.cancel_job_by_id_async(
                    job_id, abort=True, delete_job=True, connection=driver
                )


@contextlib.contextmanager
def queue_errors() -> Iterator[None]:
    """Raise `StoreError` if the queue cannot be reached."""
    try:
        yield
    except ConnectorException as error:
        raise StoreError("The queue cannot be reached") from error


async def _skip_disk_sync(connection: Driver[Any]) -> None:
    """Fetch and finish jobs without waiting for the disk. After a power cut some finished jobs may
    be back; the fence refuses to run them again."""
    await connection.set_autocommit(True)
    await connection.execute("SET synchronous_commit = off")


class _PatientConnector(PsycopgConnector):
    """Retries if the database is away for a moment. A job that could not be ended would block its
    agent for as long as the worker lives."""

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


class WorkerLost(SolwardError):
    """The queue dropped this worker, or could not be reached; another worker must be started."""


class Worker:
    """Runs cycles until it is stopped.

    Args:
        run: runs one cycle of an agent in this process.
        concurrency: the maximum number of simultaneous cycles.
        grace_s: the seconds in which running cycles may end by themselves after `stop`.
    """

    def __init__(
        self,
        database: Database,
        run: RunCycle,
        *,
        concurrency: int = CONCURRENCY,
        grace_s: float = GRACE_S,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._database = database
        self._run = run
        self._stopping = asyncio.Event()
        # procrastinate logs every job three times.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._queue = QueuePlacement(database, clock)
        self._queue.app.task(name=store.TASK, queue=store.QUEUE)(self._run_cycle)
        # `App.run_worker_async` would make the same worker and hide its id, which `ready` needs.
        self._worker = QueueWorker(
            self._queue.app,
            queues=[store.QUEUE],
            name=store.QUEUE,
            concurrency=concurrency,
            fetch_job_polling_interval=POLL_S,
            abort_job_polling_interval=1.0,
            shutdown_graceful_timeout=grace_s,
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=HEARTBEAT_S,
            stalled_worker_timeout=PRUNE_S,
        )

    async def run(self) -> None:
        """Run cycles until `stop`, then end within the time that `GRACE_S` describes.

        Raises:
            WorkerLost: the worker ended by itself; its cycles go to other workers.
            StoreError: the queue cannot be reached at the start.
        """
        async with contextlib.AsyncExitStack() as stack:
            with queue_errors():
                await stack.enter_async_context(self._queue.app.open_async())
            upkeep = (self._repeat(SWEEP_S, self._sweep), self._repeat(REAP_S, self._reap))
            working = [asyncio.create_task(each) for each in (self._worker.run(), *upkeep)]
            stop = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([*working, stop], return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Wait even if cancelled, because actions that spend need the queue until they end.
                stop.cancel()
                self._worker.stop()
                await end(working[1:])
                ended = await asyncio.gather(*working, return_exceptions=True)
        for how in ended:
            if isinstance(how, Exception):
                _log.error("worker_lost", error=repr(how))
                raise WorkerLost("The queue gave up on this worker") from how
        if not self._stopping.is_set():
            raise WorkerLost("The queue could not be reached any more")

    def stop(self) -> None:
        """Fetch no more jobs, and end the worker."""
        self._stopping.set()

    async def ready(self) -> bool:
        """Return whether the queue has this worker's heartbeat; raises `StoreError`."""
        worker_id = self._worker.worker_id
        if self._stopping.is_set() or worker_id is None:
            return False
        async with self._database.read() as connection:
            return await store.count_workers(connection, [worker_id]) == 1

    async def _run_cycle(self, agent_id: str, cycle: int) -> None:
        try:
            await self._run(agent_id, cycle)
        except Exception:
            # `reap` releases the job, as if the worker had died.
            _log.exception("cycle_not_stored", agent_id=agent_id, cycle=cycle)

    async def _repeat(self, pause_s: float, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            await do()
            await asyncio.sleep(pause_s)

    async def _sweep(self) -> None:
        try:
            await self._queue.sweep()
        except StoreError as error:
            _log.warning("agents_not_deferred", error=str(error))

    async def _reap(self) -> None:
        try:
            dropped, rearmed = await self._queue.reap()
        except StoreError as error:
            _log.warning("jobs_not_reaped", error=str(error))
            return
        if dropped or rearmed:
            _log.warning("jobs_reaped", dropped=dropped, rearmed=rearmed)


# The last migration of procrastinate 3.10, which made the queues that lack `queue_migrations`.
_LAST_OF_3_10 = "03.04.00_50_post_add_retry_failed_job_procedure.sql"

_MAKE_APPLIED = text("CREATE TABLE queue_migrations (name text PRIMARY KEY)")
_APPLIED = text("SELECT name FROM queue_migrations")
_ADD_APPLIED = text("INSERT INTO queue_migrations (name) VALUES (:name)")
# One text with many statements, which the driver accepts only without parameters.
_SCRIPT = {"no_parameters": True}

# Finding an agent's job must not read the whole backlog. Rows of jobs live for a second, so dead
# ones pile up unless they are vacuumed early.
_TUNE = (
    "CREATE INDEX IF NOT EXISTS solward_jobs_lock ON procrastinate_jobs (lock) "
    "WHERE status IN ('todo', 'doing')",
    *(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0, "
        "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000)"
        for table in ("procrastinate_jobs", "procrastinate_events")
    ),
)


async def prepare(connection: AsyncConnection, *, makes: bool = True) -> None:
    """Check the queue's tables; also create missing tables if `makes` is true.

    Raises:
        StoreError: the tables are older or newer than the installed release.
    """
    if missing := await _missing_migrations(connection, makes=makes):
        raise StoreError(
            f"The queue's tables in the database are older than the installed procrastinate"
            f" {release} and lack its migration {missing[0].name}: stop every process, back up the"
            " database, and run solward database upgrade"
        )


async def upgrade(database: Database) -> list[str]:
    """Apply the installed release's migrations that the database lacks; return their names.

    Each migration has its own transaction, so an interrupted upgrade can be run again.

    Raises:
        StoreError: a migration failed, or the tables are newer than the installed release.
    """
    applied: list[str] = []
    while True:
        async with database.write() as connection:
            missing = await _missing_migrations(connection)
            if not missing:
                return applied
            name = missing[0].name
            try:
                script = missing[0].read_text("utf-8")
                await connection.exec_driver_sql(script, execution_options=_SCRIPT)
            except DBAPIError as error:
                raise StoreError(f"The migration {name} failed: {error.orig}") from error
            await connection.execute(_ADD_APPLIED, {"name": name})
        applied.append(name)


async def _missing_migrations(connection: AsyncConnection, *, makes: bool = True) -> list[Path]:
    """Return the migrations that the database lacks, in order; create missing tables if `makes`."""
    if makes:
        await lock_exclusive(connection, "jobs")
    shipped = _shipped_migrations()
    names = [each.name for each in shipped]
    tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    if "queue_migrations" not in tables:
        if not makes:
            return []
        await connection.execute(_MAKE_APPLIED)
        made = names
        if "procrastinate_jobs" in tables:
            made = [each for each in names if each <= _LAST_OF_3_10]
        else:
            schema = SchemaManager.get_schema()
            await connection.exec_driver_sql(schema, execution_options=_SCRIPT)
            for statement in _TUNE:
                await connection.execute(text(statement))
        await connection.execute(_ADD_APPLIED, [{"name": each} for each in made])
    applied = set((await connection.execute(_APPLIED)).scalars())
    if unknown := applied.difference(names):
        raise StoreError(
            "The queue's tables in the database are newer than the installed procrastinate"
            f" {release}, which does not know their migration {max(unknown)}: install the release"
            " with which solward database upgrade was run"
        )
    return [each for each in shipped if each.name not in applied]


def _shipped_migrations() -> list[Path]:
    """Return the installed release's migrations, in their order: by version, then by number."""
    return sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
