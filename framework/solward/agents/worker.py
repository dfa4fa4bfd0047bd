"""A worker: runs the cycles that wait in the queue, and keeps the queue filled.

Two of procrastinate's workers in one process. `agents` runs cycles. `control` runs what one process
does for all: `tick` creates jobs of due cycles, `reap` releases the jobs of dead workers, `retain`
deletes old rows. None of them holds a lock: a killed holder would halt every agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from procrastinate.exceptions import ConnectorException
from procrastinate.worker import Worker as QueueWorker

from solward.agents.queue_placement import PRUNE_S, QueuePlacement
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
# Time for running cycles to end by themselves after `stop`; then they are cancelled, except actions
# that spend, which always run to their end.
GRACE_S = 5.0

SWEEPS = 5
SWEEP_S = 0.2

_TICK = "solward.tick"
_REAP = "solward.reap"
_EVERY_SECOND = "* * * * * */1"
_HOURLY = "17 * * * *"

_log = structlog.get_logger(__name__)


class WorkerLost(SolwardError):
    """The queue gave up on this worker, or could not be reached: start another."""


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
        self._stopping = asyncio.Event()
        # It logs every job three times.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._queue = QueuePlacement(database, clock)
        self._add_tasks()
        options: dict[str, Any] = {
            "abort_job_polling_interval": 1.0,
            "shutdown_graceful_timeout": grace_s,
            "delete_jobs": "always",
            "install_signal_handlers": False,
            "update_heartbeat_interval": HEARTBEAT_S,
            "stalled_worker_timeout": PRUNE_S,
        }
        # `App.run_worker_async` makes the same, but tells nobody the id by which `ready` asks.
        self._workers = [
            QueueWorker(
                self._queue.app,
                queues=[store.QUEUE],
                name=store.QUEUE,
                concurrency=concurrency,
                fetch_job_polling_interval=AGENTS_POLL_S,
                **options,
            ),
            QueueWorker(
                self._queue.app,
                queues=[CONTROL],
                name=CONTROL,
                concurrency=CONTROL_CONCURRENCY,
                fetch_job_polling_interval=CONTROL_POLL_S,
                listen_notify=False,
                **options,
            ),
        ]

    async def run(self) -> None:
        """Work until `stop`, then end as `GRACE_S` says.

        Raises:
            WorkerLost: it ended by itself. Its cycles go to other workers.
            StoreError: the queue cannot be reached at the start.
        """
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._queue.app.open_async())
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
            return await store.count_workers(connection, ids) == len(ids)

    def _add_tasks(self) -> None:
        app = self._queue.app
        app.task(name=store.TASK, queue=store.QUEUE)(self._cycle)
        for name, cron, task in (
            (_TICK, _EVERY_SECOND, self._tick),
            (_REAP, _EVERY_SECOND, self._reap),
            ("solward.retain", _HOURLY, self._retain_once),
        ):
            app.periodic(cron=cron)(app.task(name=name, queue=CONTROL)(task))

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
            await self._sweep()
            if self._stopping.is_set() or sweep == SWEEPS:
                return
            await asyncio.sleep(max(0.0, started + sweep * SWEEP_S - loop.time()))

    async def _sweep(self) -> None:
        try:
            await self._queue.sweep()
        except StoreError as error:
            _log.warning("agents_not_deferred", error=str(error))

    async def _reap(self, timestamp: int) -> None:
        if await self._newer_waits(_REAP):
            return
        try:
            dropped, rearmed = await self._queue.reap()
        except StoreError as error:
            _log.warning("jobs_not_reaped", error=str(error))
            return
        if dropped or rearmed:
            _log.warning("jobs_reaped", dropped=dropped, rearmed=rearmed)

    async def _newer_waits(self, task: str) -> bool:
        # A worker that was frozen catches up on every second it missed, so only the newest job of
        # a task counts. The queue decides, not clocks: those of several machines may differ.
        try:
            waiting = await self._queue.app.job_manager.list_jobs_async(
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
