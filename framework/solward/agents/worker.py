"""A worker: runs the cycles that wait in the queue, and keeps the queue filled.

Beside procrastinate's worker, each process creates jobs of due cycles and releases the jobs of dead
workers. All of them do, so that agents go on where one is killed or frozen. One that is frozen
while it creates jobs holds the others up until the database ends its transaction, after 10 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import structlog
from procrastinate.worker import Worker as QueueWorker

from solward.agents.placement import RunCycle
from solward.agents.queue_placement import PRUNE_S, QueuePlacement, queue_errors
from solward.agents.store import jobs as store
from solward.database.database import Database
from solward.support.clock import now_ms
from solward.support.tasks import end
from solward.types.errors import SolwardError, StoreError

# Most cycles wait for a model, so a worker holds many at once (measured: benchmarks/scale.py).
CONCURRENCY = 300
POLL_S = 1.0  # notifications wake the worker; this is for lost ones
HEARTBEAT_S = 2.0
# Time for running cycles to end by themselves after `stop`; then they are cancelled, except actions
# that spend, which always run to their end.
GRACE_S = 5.0

# How often jobs are created of what is due, and released of workers that died.
SWEEP_S = 0.2
REAP_S = 1.0

_log = structlog.get_logger(__name__)


class WorkerLost(SolwardError):
    """The queue gave up on this worker, or could not be reached: start another."""


class Worker:
    """Runs cycles until it is stopped.

    Args:
        run: runs one cycle of an agent here.
        concurrency: cycles at one time.
        grace_s: seconds for running cycles to end by themselves.
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
        # It logs every job three times.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._queue = QueuePlacement(database, clock)
        self._queue.app.task(name=store.TASK, queue=store.QUEUE)(self._cycle)
        # `App.run_worker_async` makes the same, but tells nobody the id by which `ready` asks.
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
        """Work until `stop`, then end as `GRACE_S` says.

        Raises:
            WorkerLost: it ended by itself. Its cycles go to other workers.
            StoreError: the queue cannot be reached at the start.
        """
        async with contextlib.AsyncExitStack() as stack:
            with queue_errors():
                await stack.enter_async_context(self._queue.app.open_async())
            upkeep = (self._every(SWEEP_S, self._sweep), self._every(REAP_S, self._reap))
            working = [asyncio.create_task(each) for each in (self._worker.run(), *upkeep)]
            stop = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([*working, stop], return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Also when cancelled: actions that spend need the queue until they end.
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
        """Fetch no more jobs, and end."""
        self._stopping.set()

    async def ready(self) -> bool:
        """Whether the queue sees the worker; raises `StoreError`."""
        worker_id = self._worker.worker_id
        if self._stopping.is_set() or worker_id is None:
            return False
        async with self._database.read() as connection:
            return await store.count_workers(connection, [worker_id]) == 1

    async def _cycle(self, agent_id: str, cycle: int) -> None:
        try:
            await self._run(agent_id, cycle)
        except Exception:
            # As if the worker had died in it: `reap` makes it run again.
            _log.exception("cycle_not_stored", agent_id=agent_id, cycle=cycle)

    async def _every(self, pause_s: float, do: Callable[[], Awaitable[None]]) -> None:
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
