"""Remember: entering and leaving a cycle in the store, each one write transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from solward import jsontext
from solward.agents.cycle import Entered, Standing
from solward.agents.model import Decision, DesiredState, agent_of, memory_of
from solward.agents.think import MEMORY_GIVEN
from solward.clock import now_ms
from solward.store import agents as store
from solward.store import audit
from solward.store.database import Database

DECISION_EVENT = "agent:decision"  # contract 6


class Journal:
    """The store as cycles use it; decisions reach the audit log with the cycle, or not at all."""

    def __init__(self, database: Database, publish: Callable[[str, Any], object]) -> None:
        self._database = database
        self._publish = publish

    async def enter(self, agent_id: str, cycle: int) -> Entered | None:
        """Take the fence; None when the cycle is stale or the agent is no longer to run."""
        async with self._database.write() as connection:
            row = await store.enter_cycle(connection, agent_id, cycle)
            if row is None:
                return None
            entries = await store.list_memory(connection, agent_id, MEMORY_GIVEN)
            taken = await store.taken_action(connection, agent_id, cycle)
        return Entered(agent_of(row), tuple(map(memory_of, entries)), taken)

    async def leave(self, decision: Decision, fence: int, standing: Standing) -> bool:
        """Record the decision and move on; False when the agent is not to run further.

        Nothing is recorded when another run has taken the fence.
        """
        data = decision.to_json()
        async with self._database.write() as connection:
            row = await store.leave_cycle(
                connection,
                decision.agent_id,
                fence,
                next_run_ms=standing.next_run_ms,
                status=standing.status,
                failures=standing.failures,
                error=standing.error,
            )
            if row is None:
                return False
            await store.insert_decision(
                connection,
                agent_id=decision.agent_id,
                cycle=decision.cycle,
                observations=jsontext.dumps(data["observations"]),
                reasoning=decision.reasoning,
                action=decision.action,
                outcome=decision.outcome,
                created_ms=decision.created_ms,
            )
            await audit.append(connection, now_ms(), DECISION_EVENT, data)
        self._publish(DECISION_EVENT, data)
        return bool(row["desired_state"] == DesiredState.RUNNING.value)
