"""Where the cycles of agents run: in this process, or on workers through a queue.

Both run the same `run_cycle` on the same journal; a placement decides only when and where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from solward.agents.runner import CycleRunner, RunCycle
from solward.agents.store import agents as store
from solward.database.database import Database
from solward.support.clock import now_ms


class Placement(Protocol):
    """Runs the cycles of agents as their rows in the store say."""

    async def open(self) -> None:
        """Resume the agents that ran when the last process ended.

        Raises:
            StoreError: the store refused.
        """
        ...

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """Schedule a cycle for `due_ms`, which the agent's row already has."""
        ...

    async def halt(self, agent_id: str) -> None:
        """Halt an agent, whose row already says so; returns once nothing of it runs."""
        ...

    async def close(self) -> None:
        """End the cycles of this process; actions that spend run to their end first."""
        ...


MakePlacement = Callable[[Database, RunCycle], Placement]


class EmbeddedPlacement(CycleRunner):
    """Runs cycles in this process, which is the only one."""

    def __init__(self, database: Database, run: RunCycle) -> None:
        super().__init__(run)
        self._database = database

    async def open(self) -> None:
        """See `Placement`."""
        async with self._database.read() as connection:
            waiting = await store.agents_to_run(connection)
        now = now_ms()
        for agent_id, cycle, due_ms in waiting:
            self.schedule(agent_id, cycle, now if due_ms is None else due_ms)

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """See `Placement`."""
        self.schedule(agent_id, cycle, due_ms)


def default(database: Database, run: RunCycle) -> Placement:
    """On workers where several processes share the database, in this process otherwise."""
    if not database.shared:
        return EmbeddedPlacement(database, run)
    # Procrastinate is installed for PostgreSQL only.
    from solward.agents.queue_placement import QueuePlacement

    return QueuePlacement(database)
