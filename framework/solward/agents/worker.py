"""A worker: runs the cycles that wait in the queue, and keeps the queue filled.

Two of procrastinate's workers in one process. `agents` runs cycles. `control` runs what one process
does for all: `tick` creates jobs of due cycles, `reap` releases the jobs of dead workers, `retain`
deletes old rows. None of them holds a lock: a killed holder would halt every agent.

Jobs are fetched, started and finished many at a time. Procrastinate fetches one after the other,
each in a transaction of its own and after several turns of the event loop: a busy worker waits for
the next job more than it works (benchmarks/scale.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from procrastinate import App, PsycopgConnector
from procrastinate.connector import BaseAsyncConnector
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.job_context import AbortReason, JobContext
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.worker import Worker as JobWorker
from procrastinate.worker import Worker as QueueWorker
from psycopg import AsyncConnection

from solward.agents.act import run_to_end
from solward.agents.batch import Batcher
from solward.agents.runner import RunCycle
from solward.agents.store import jobs as store
from solward.database.database import Database
from solward.support.clock import now_ms
from solward.types.errors import SolwardError, StoreError

# Most cycles wait for a model, so a worker holds many at once (measured: benchmarks/scale.py).
CONCURRENCY = 300
CONTROL = "control"
CONTROL_CONCURRENCY = 3  # `retain` takes long, and must not delay the others
CONTROL_POLL_S = 0.2
AGENTS_POLL_S = 1.0  # notifications wake the worker; this is for lost ones
HEARTBEAT_S = 2.0
PRUNE_S = 60.0
# Time for running cycles to end by themselves after `stop`; then they are cancelled, except actions
# that spend, which always run to their end.
GRACE_S = 5.0

SWEEPS = 5
SWEEP_S = 0.2

_TICK = "solward.tick"
_REAP = "solward.reap"
_EVERY_SECOND = "* * * * * */1"
_HOURLY = "17 * * * *"
_POOL = 8

_log = structlog.get_logger(__name__)

# Most jobs of one fetch, which leaves some to other workers.
FETCH_MOST = 100
# A database that is away for longer ends the worker, whose jobs then go to others.
FINISH_RETRIES_S = (0.05, 0.2, 1.0, 2.0, 4.0)
# A full worker waits this long after a job's end, so that the next fetch gets more than one.
LINGER_S = 0.02

RunJob = Callable[..., Awaitable[None]]


class WorkerLost(SolwardError):
    """The queue gave up on this worker, or could not be reached: start another."""


async def _hurried(connection: AsyncConnection[Any]) -> None:
    """Fetch and finish jobs without waiting for the disk: a power cut may bring back some of the
    last ones, and the fence turns their second run into nothing."""
    await connection.set_autocommit(True)
    await connection.execute("SET synchronous_commit = off")


class Worker:
    """Runs cycles until it is stopped.

    Args:
        run: runs one cycle of an agent here.
        retain: deletes what is old, once an hour on one of all workers.
        concurrency: cycles at one time.
        grace_s: seconds for running cycles to end by themselves.
    """

    def __init__(
        self,
        database: Database,
        run: RunCycle,
        *,
        retain: Callable[[], Awaitable[object]] | None = None,
        concurrency: int = CONCURRENCY,
        grace_s: float = GRACE_S,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._database = database
        self._run = run
        self._retain = retain
        self._clock = clock
        self._stopping = asyncio.Event()
        # It logs every job three times.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        connector = PsycopgConnector(
            conninfo=database.conninfo, min_size=1, max_size=_POOL, configure=_hurried
        )
        self._app = App(connector=connector)
        self._app.job_manager = BatchJobManager(connector)
        self._workers = [
            self._queue_worker(
                store.QUEUE,
                concurrency=concurrency,
                poll_s=AGENTS_POLL_S,
                listen=True,
                grace_s=grace_s,
            ),
            self._queue_worker(
                CONTROL,
                concurrency=CONTROL_CONCURRENCY,
                poll_s=CONTROL_POLL_S,
                listen=False,
                grace_s=grace_s,
            ),
        ]
        self._add_tasks()

    async def run(self) -> None:
        """Work until `stop`, then end as `GRACE_S` says.

        Raises:
            WorkerLost: it ended by itself. Its cycles go to other workers.
            StoreError: the queue cannot be reached at the start.
        """
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._app.open_async())
            except ConnectorException as error:
                raise StoreError("The queue cannot be reached") from error
            running = [asyncio.create_task(worker.run()) for worker in self._workers]
            stop = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([*running, stop], return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Also when cancelled: actions that spend need the queue until they end.
                stop.cancel()
                for worker in self._workers:
                    worker.stop()
                ended = await asyncio.gather(*running, return_exceptions=True)
        for how in ended:
            if isinstance(how, BaseException):
                _log.error("worker_lost", error=repr(how))
                raise WorkerLost("The queue gave up on this worker") from how
        if not self._stopping.is_set():
            raise WorkerLost("The queue could not be reached any more")

    def stop(self) -> None:
        """Fetch no more jobs, and end."""
        self._stopping.set()

    async def ready(self) -> bool:
        """Whether the queue sees both of its workers; raises `StoreError`."""
        ids = [worker.worker_id for worker in self._workers if worker.worker_id is not None]
        if self._stopping.is_set() or len(ids) < len(self._workers):
            return False
        async with self._database.read() as connection:
            return await store.live_workers(connection, ids) == len(ids)

    def _queue_worker(
        self, queue: str, *, concurrency: int, poll_s: float, listen: bool, grace_s: float
    ) -> QueueWorker:
        options: dict[str, Any] = {
            "queues": [queue],
            "name": queue,
            "concurrency": concurrency,
            "fetch_job_polling_interval": poll_s,
            "abort_job_polling_interval": 1.0,
            "shutdown_graceful_timeout": grace_s,
            "listen_notify": listen,
            "delete_jobs": "always",
            "install_signal_handlers": False,
            "update_heartbeat_interval": HEARTBEAT_S,
            "stalled_worker_timeout": PRUNE_S,
        }
        if queue == store.QUEUE:
            return BatchWorker(self._app, self._cycle, **options)
        return QueueWorker(self._app, **options)

    def _add_tasks(self) -> None:
        self._app.task(name=store.TASK, queue=store.QUEUE)(self._cycle)
        for name, cron, task in (
            (_TICK, _EVERY_SECOND, self._tick),
            (_REAP, _EVERY_SECOND, self._reap),
            ("solward.retain", _HOURLY, self._retain_once),
        ):
            self._app.periodic(cron=cron)(self._app.task(name=name, queue=CONTROL)(task))

    async def _cycle(self, agent_id: str, cycle: int) -> None:
        try:
            await self._run(agent_id, cycle)
        except Exception:
            # As if the worker had died in it: `reap` makes it run again.
            _log.exception("cycle_not_stored", agent_id=agent_id, cycle=cycle)

    async def _tick(self, timestamp: int) -> None:
        if await self._newer_waits(_TICK):
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        for sweep in range(1, SWEEPS + 1):
            await self.sweep()
            if self._stopping.is_set() or sweep == SWEEPS:
                return
            await asyncio.sleep(max(0.0, started + sweep * SWEEP_S - loop.time()))

    async def sweep(self) -> int:
        """Create jobs of due cycles, as many as the queue has room for; returns their number."""
        try:
            async with self._database.write() as connection:
                return await store.defer_due(connection, self._clock())
        except StoreError as error:
            _log.warning("agents_not_deferred", error=str(error))
            return 0

    async def _reap(self, timestamp: int) -> None:
        if not await self._newer_waits(_REAP):
            await self.reap()

    async def reap(self) -> None:
        """Drop the jobs of dead workers, and let their agents be deferred again."""
        try:
            async with self._database.write() as connection:
                dropped = await store.drop_stalled(connection)
                await store.prune_workers(connection, PRUNE_S)
            async with self._database.write() as connection:
                rearmed = await store.rearm(connection, self._clock())
        except StoreError as error:
            _log.warning("jobs_not_reaped", error=str(error))
            return
        if dropped or rearmed:
            _log.warning("jobs_reaped", dropped=len(dropped), rearmed=len(rearmed))

    async def _newer_waits(self, task: str) -> bool:
        # A worker that was frozen catches up on every second it missed, so only the newest job of
        # a task counts. The queue decides, not clocks: those of several machines may differ.
        try:
            waiting = await self._app.job_manager.list_jobs_async(
                queue=CONTROL, task=task, status="todo"
            )
        except ConnectorException:
            return False
        return bool(list(waiting))

    async def _retain_once(self, timestamp: int) -> None:
        if self._retain is None:
            return
        try:
            await self._retain()
        except StoreError as error:
            _log.warning("retention_failed", error=str(error))


class BatchJobManager(JobManager):
    """Fetches and finishes the jobs of `store.QUEUE` in batches; other queues as procrastinate."""

    def __init__(self, connector: BaseAsyncConnector) -> None:
        super().__init__(connector)
        self._connector = connector
        self._finishing: Batcher[int, None] = Batcher(self._finish)

    async def fetch_jobs(self, worker_id: int, most: int) -> Sequence[Job]:
        """Jobs for a worker to run, oldest first."""
        try:
            rows = await self._connector.execute_query_all_async(
                store.FETCH, queue=store.QUEUE, worker_id=worker_id, most=most
            )
        except UniqueViolation:
            # Another worker fetched a job of one of these agents at the same time.
            job = await self.fetch_job([store.QUEUE], worker_id)
            return [] if job is None else [job]
        return [Job.from_row(row) for row in rows]

    def finish(self, job_id: int) -> Awaitable[None]:
        """Finish a job of `store.QUEUE`. One that was dropped with its worker counts as finished,
        and a caller that is cancelled stops nothing."""
        return self._finishing(job_id)

    async def _finish(self, ids: Sequence[int]) -> list[None]:
        for pause_s in FINISH_RETRIES_S:
            try:
                await self._connector.execute_query_async(store.FINISH, ids=list(ids))
            except ConnectorException as error:
                # An unfinished job of a live worker would block its agent for ever.
                _log.warning("jobs_not_ended", error=str(error.__cause__ or error))
                await asyncio.sleep(pause_s)
            else:
                return [None] * len(ids)
        raise ConnectorException


class BatchWorker(JobWorker):
    """A worker of `store.QUEUE` that starts all the jobs of a fetch at once.

    Procrastinate's own way of a job, with middlewares, retries, a result and three lines of log
    that nobody reads, took as much processor time as the prompt (benchmarks/scale.py).
    """

    def __init__(self, app: App, run: RunJob, **options: Any) -> None:
        """Args:
        run: runs a cycle, by the parameters of its job, and raises nothing but a cancellation.
        options: of `procrastinate.worker.Worker`.
        """
        super().__init__(app, **options)
        self._run_job = run
        self._job_ended = asyncio.Event()

    async def _fetch_and_process_jobs(self) -> None:
        jobs = self.app.job_manager
        assert isinstance(jobs, BatchJobManager)
        while not self._stop_event.is_set():
            if len(self._running_jobs) >= self.concurrency:
                await self._wait_for_room()
                continue
            assert self.worker_id is not None
            # Jobs created from here on set the event again.
            self._new_job_event.clear()
            most = min(FETCH_MOST, self.concurrency - len(self._running_jobs))
            fetched = await jobs.fetch_jobs(self.worker_id, most)
            for job in fetched:
                self._start_job(job)
            if len(fetched) < most:
                return

    async def _wait_for_room(self) -> None:
        self._job_ended.clear()
        waits = [asyncio.ensure_future(e.wait()) for e in (self._stop_event, self._job_ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        await asyncio.sleep(LINGER_S)

    def _start_job(self, job: Job) -> None:
        context = JobContext(
            app=self.app,
            worker_name=self.worker_name,
            worker_queues=self.queues,
            additional_context={},
            job=job,
            abort_reason=functools.partial(self._abort_reason, job.id),
            start_timestamp=time.time(),
        )
        task = asyncio.create_task(self._process_job(context), name=f"job {job.id}")
        self._running_jobs[task] = context
        task.add_done_callback(self._ended)

    async def _process_job(self, context: JobContext) -> None:
        jobs, job = self.app.job_manager, context.job
        assert isinstance(jobs, BatchJobManager)
        assert job.id is not None
        try:
            await self._run_job(**job.task_kwargs)
        finally:
            # Shutting down cancels a job that takes too long, and this waits for its end.
            await run_to_end(jobs.finish(job.id))
            self._job_ids_to_abort.pop(job.id, None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running_jobs[task]
        self._job_ended.set()

    def _abort_reason(self, job_id: int | None) -> AbortReason | None:
        return None if job_id is None else self._job_ids_to_abort.get(job_id)
