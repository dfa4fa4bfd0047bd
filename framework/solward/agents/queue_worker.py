"""Jobs fetched, started and finished many at a time.

Procrastinate fetches one after the other, each in a transaction of its own and after several turns
of the event loop: a busy worker waits for the next job more than it works (benchmarks/scale.py).
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from procrastinate import App
from procrastinate.connector import BaseAsyncConnector
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.job_context import AbortReason, JobContext
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.worker import Worker

from solward.agents.act import run_to_end
from solward.agents.batch import Batcher
from solward.agents.store import jobs as store

# Most jobs of one fetch, which leaves some to other workers.
FETCH_MOST = 100
# A database that is away for longer ends the worker, whose jobs then go to others.
FINISH_RETRIES_S = (0.05, 0.2, 1.0, 2.0, 4.0)
# A full worker waits this long after a job's end, so that the next fetch gets more than one.
LINGER_S = 0.02

RunJob = Callable[..., Awaitable[None]]

_log = structlog.get_logger(__name__)


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


class BatchWorker(Worker):
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
