"""A worker beside what else its process does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from solward.agents.worker import Worker
    from solward.service import Solward

RESTART_S = 1.0

_log = structlog.get_logger(__name__)


def agents_worker(service: Solward, concurrency: int | None = None) -> Worker:
    """A worker for the agents of a service that is open in this process."""
    from solward.agents.worker import CONCURRENCY, Worker
    from solward.clock import now_ms
    from solward.store.retention_loop import retain

    async def keep_what_is_wanted() -> None:
        await retain(service.database, service.settings, now_ms())

    return Worker(
        service.database,
        service.agents.run_cycle,
        retain=keep_what_is_wanted,
        concurrency=CONCURRENCY if concurrency is None else concurrency,
    )


async def working(
    worker: Worker, stop: asyncio.Event, beside: Coroutine[Any, Any, None] | None = None
) -> None:
    """Run a worker until `stop` is set, and something beside it that ends then too.

    Raises:
        WorkerLost: it ended by itself; `stop` is set then.
    """
    tasks = [asyncio.create_task(worker.run())]
    if beside is not None:
        tasks.append(asyncio.create_task(beside))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        worker.stop()
        await asyncio.wait([*tasks, stopped])
    for task in tasks:
        task.result()


async def kept_working(service: Solward, stop: asyncio.Event) -> None:
    """Run a worker until `stop` is set, and another whenever one is lost."""
    from solward.agents.worker import WorkerLost
    from solward.errors import StoreError

    while not stop.is_set():
        worker = agents_worker(service)
        task = asyncio.create_task(worker.run())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            worker.stop()
            await asyncio.wait([task])
        try:
            task.result()
        except (WorkerLost, StoreError) as error:
            _log.error("worker_lost", error=str(error))
            await asyncio.sleep(RESTART_S)
