"""Where the cycles of agents run: in this process, or on workers through a queue.

Either way it is the same `run_cycle`, entered and left through the same journal; a placement only
says when, and where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from solward.agents.runner import RunCycle, Runner
from solward.clock import now_ms
from solward.store import agents as store
from solward.vault.store.database import Database


class Placement(Protocol):
    """Has the cycles of agents run that are to run, as their rows in the store say."""

    async def open(self) -> None:
        """Run again what should run, as it was when the last process ended.

        Raises:
            StoreError: the store refused.
        """
        ...

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Have a cycle run at `due_ms`; its agent's row says the same already."""
        ...

    async def halt(self, agent_id: str) -> None:
        """Take an agent off; returns when it does nothing more. Its row says so already."""
        ...

    async def close(self) -> None:
        """End what runs in this process; what it spends is finished first."""
        ...


Place = Callable[[Database, RunCycle], Placement]


class Embedded:
    """Cycles run in this process, which is the only one."""

    def __init__(self, database: Database, run: RunCycle) -> None:
        self._database = database
        self._runner = Runner(run)

    async def open(self) -> None:
        """See `Placement`."""
        async with self._database.read() as connection:
            waiting = await store.agents_to_run(connection)
        now = now_ms()
        for agent_id, cycle, due_ms in waiting:
            self._runner.schedule(agent_id, cycle, now if due_ms is None else due_ms)

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """See `Placement`."""
        self._runner.schedule(agent_id, cycle, due_ms)

    async def halt(self, agent_id: str) -> None:
        """See `Placement`."""
        await self._runner.halt(agent_id)

    async def close(self) -> None:
        """See `Placement`."""
        await self._runner.close()


def default(database: Database, run: RunCycle) -> Placement:
    """On workers where several processes share the database, in this process otherwise."""
    if not database.shared:
        return Embedded(database, run)
    # Procrastinate is installed for PostgreSQL only.
    from solward.agents.job_queue import Queued

    return Queued(database)
