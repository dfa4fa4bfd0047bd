"""Jobs taken from the queue and ended many at a time.

Procrastinate takes one after the other, each in a transaction of its own: on a busy machine a
worker then waits for the database more than it works (benchmarks/scale.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import structlog
from procrastinate.connector import BaseAsyncConnector
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from solward.agents.batch import Batcher
from solward.store import jobs as store

# A worker that dies has taken so many in vain, for the others to find as stalled.
MOST = 100

_log = structlog.get_logger(__name__)


class Taking(JobManager):
    """What a worker takes: of `store.QUEUE` as many as it has room for, at once.

    All of them begin at once; those that were taken and not begun as it stops go back.

    Args:
        concurrency: jobs of the queue that run at one time.
    """

    def __init__(self, connector: BaseAsyncConnector, concurrency: int) -> None:
        super().__init__(connector)
        self._connector = connector
        self._concurrency = concurrency
        self._running = 0
        self._taken: deque[Job] = deque()
        self._ending: Batcher[int, None] = Batcher(self._end)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """See `JobManager.fetch_job`."""
        if list(queues or ()) != [store.QUEUE]:
            return await super().fetch_job(queues, worker_id)
        if not self._taken:
            self._taken.extend(await self._take(worker_id))
        if not self._taken:
            return None
        self._running += 1
        return self._taken.popleft()

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """See `JobManager.finish_job`. A job that is gone, because its worker was given up, has
        ended."""
        if job.queue != store.QUEUE or not delete_job or job.id is None:
            await super().finish_job(job, status, delete_job)
            return
        try:
            await self._ending(job.id)
        finally:
            self._running -= 1

    async def give_back(self) -> None:
        """Let other workers have what was taken and not begun."""
        ids = [job.id for job in self._taken]
        self._taken.clear()
        if ids:
            try:
                await self._connector.execute_query_async(store.GIVE_BACK, ids=ids)
            except ConnectorException as error:
                # They are found as stalled.
                _log.warning("jobs_not_given_back", error=str(error))

    async def _take(self, worker_id: int) -> list[Job]:
        most = max(1, min(MOST, self._concurrency - self._running))
        try:
            rows = await self._connector.execute_query_all_async(
                store.TAKE, queue=store.QUEUE, worker_id=worker_id, most=most
            )
        except UniqueViolation:
            # Another worker took a job of one of these agents just then.
            job = await super().fetch_job([store.QUEUE], worker_id)
            return [] if job is None else [job]
        return [Job.from_row(row) for row in rows]

    async def _end(self, ids: Sequence[int]) -> list[None]:
        await self._connector.execute_query_async(store.END, ids=list(ids))
        return [None] * len(ids)
