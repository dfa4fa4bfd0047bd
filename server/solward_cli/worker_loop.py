"""Running a worker in a process: alone with its endpoint, or beside a server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from solward.agents.worker import Worker
    from solward.service.service import Solward

RESTART_S = 1.0

_log = structlog.get_logger(__name__)


def agents_worker(service: Solward, concurrency: int | None = None) -> Worker:
    """A worker for the agents of a service that is open in this process."""
    from solward.agents.worker import CONCURRENCY, Worker
    from solward.service.retention import retain_now

    async def delete_old_rows() -> None:
        await retain_now(service.database, service.settings)

    return Worker(
        service.database,
        service.agents.run_cycle,
        retain=delete_old_rows,
        concurrency=CONCURRENCY if concurrency is None else concurrency,
    )


async def run_worker(
    worker: Worker, stop: asyncio.Event, endpoint: Coroutine[Any, Any, None] | None = None
) -> None:
    """Run a worker until `stop` is set, and its HTTP endpoint, which ends by `stop` too.

    Raises:
        WorkerLost: the worker ended by itself; with an endpoint, `stop` is set then.
    """
    tasks = [asyncio.create_task(worker.run())]
    if endpoint is not None:
        tasks.append(asyncio.create_task(endpoint))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        worker.stop()
        if endpoint is not None:
            stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def run_workers(service: Solward, stop: asyncio.Event) -> None:
    """Run a worker until `stop` is set, and a new one whenever one is lost."""
    from solward.agents.worker import WorkerLost
    from solward.types.errors import StoreError

    while not stop.is_set():
        try:
            await run_worker(agents_worker(service), stop)
        except (WorkerLost, StoreError) as error:
            _log.error("worker_lost", error=str(error))
            await asyncio.sleep(RESTART_S)
