"""Remember: cycles entered and left in the store, many in one write transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents.agent import Agent, Decision, DesiredState, MemoryEntry, agent_of
from solward.agents.batch import Batcher
from solward.agents.budget import NOTHING_USED, TokensUsed
from solward.agents.model_budget import Reserved, usage_row
from solward.agents.store import agents as agent_store
from solward.agents.store import cycles as store
from solward.audit.acts import record_act
from solward.database import outbox
from solward.database.database import Database
from solward.resources.agents import AgentStatus
from solward.support.durations import HOUR_MS
from solward.telemetry import metrics
from solward.types.events import EventKind
from solward.types.record import Hold, TransactionRecord


@dataclass(frozen=True, slots=True)
class EnteredCycle:
    """A cycle that may run.

    Attributes:
        memory: the latest entries, newest first.
        earlier_action: the skill and transaction of this cycle's action, held or not, where an
            earlier run of the same cycle was interrupted after it.
    """

    agent: Agent
    memory: tuple[MemoryEntry, ...]
    earlier_action: tuple[str, TransactionRecord | Hold] | None = None


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle changes of its agent's row, and what it reserved.

    Attributes:
        next_run_ms: when the next one is due.
        reserved: of the model's budget, to be settled to the decision's usage.
    """

    status: str
    failures: int
    error: str | None
    next_run_ms: int
    reserved: Reserved | None = None


@dataclass(frozen=True, slots=True)
class _Leaving:
    decision: Decision
    fence: int
    result: CycleResult


class Journal:
    """The store of cycles. A decision and its audit event commit in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entering: Batcher[tuple[str, int], EnteredCycle | None] = Batcher(self._enter)
        self._leaving: Batcher[_Leaving, bool] = Batcher(self._leave)

    def enter(self, agent_id: str, cycle: int) -> Awaitable[EnteredCycle | None]:
        """Take the fence; None when the cycle is stale or the agent must not run."""
        return self._entering((agent_id, cycle))

    def leave(self, decision: Decision, fence: int, result: CycleResult) -> Awaitable[bool]:
        """Record the decision and advance the agent; False when it must not run further.

        Nothing is recorded when another run has taken the fence.
        """
        return self._leaving(_Leaving(decision, fence, result))

    async def abandon(self, agent_id: str, fence: int) -> None:
        """Undo the entering of a cycle, so that it can be run again at once."""
        async with self._database.write() as connection:
            await store.abandon(connection, agent_id, fence)

    async def _enter(self, cycles: Sequence[tuple[str, int]]) -> list[EnteredCycle | None]:
        async with self._database.write() as connection:
            rows = await store.enter(connection, cycles)
            ids = [row["id"] for row in rows if row is not None]
            recalled = await store.recall(connection, ids)
        return [None if row is None else _entered(row, recalled[row["id"]]) for row in rows]

    async def _leave(self, leaving: Sequence[_Leaving]) -> list[bool]:
        async with self._database.write() as connection:
            left = await store.leave(connection, [_row(each) for each in leaving])
            used: list[dict[str, Any]] = []
            for each, was in zip(leaving, left, strict=True):
                decision, reserved = each.decision, each.result.reserved
                if reserved is not None and (row := reserved.settled(decision.usage)) is not None:
                    used.append(row)
                if was is None:
                    continue
                if reserved is None and decision.usage is not None:
                    used.append(usage_row(decision.agent_id, decision.created_ms, decision.usage))
                outbox.record(connection, EventKind.AGENT_DECISION, decision.to_json())
                if _turned_error(each, was):
                    record_status(
                        connection, decision.agent_id, was.name, AgentStatus(was.status),
                        AgentStatus.ERROR, each.result.error, by=f"agent:{decision.agent_id}",
                    )  # fmt: skip
            await agent_store.add_usage(connection, used)
        for each, was in zip(leaving, left, strict=True):
            metrics.CYCLES.labels(_outcome(each, was)).inc()
        running = DesiredState.RUNNING.value
        return [was is not None and was.desired_state == running for was in left]


async def tokens_of(database: Database, connection: AsyncConnection, agent_id: str) -> TokensUsed:
    """The last day's tokens of one agent, with what is reserved."""
    hour = (await database.moment(connection)).window_ms // HOUR_MS
    used = await agent_store.used(connection, [agent_id], hour)
    return used.get(agent_id, NOTHING_USED)


def _entered(row: dict[str, Any], recalled: store.Recalled) -> EnteredCycle:
    memory = tuple(map(MemoryEntry._make, recalled.memory))
    return EnteredCycle(agent_of(row), memory, recalled.earlier_action)


def _row(leaving: _Leaving) -> store.LeavingCycle:
    result = leaving.result
    return store.LeavingCycle(
        agent_id=leaving.decision.agent_id,
        fence=leaving.fence,
        next_run_ms=result.next_run_ms,
        status=result.status,
        failures=result.failures,
        error=result.error,
        decision=leaving.decision.to_row(),
    )


def _outcome(leaving: _Leaving, was: store.LeftCycle | None) -> str:
    if was is None:
        metrics.FENCED.labels("leave").inc()
        return "fenced"
    if leaving.result.error is not None:
        return "failed"
    action = leaving.decision.action
    return "waited" if action is None or action.startswith("wait(") else "acted"


def _turned_error(leaving: _Leaving, was: store.LeftCycle) -> bool:
    error = AgentStatus.ERROR.value
    running = was.desired_state == DesiredState.RUNNING.value
    return running and leaving.result.status == error and was.status != error


_KINDS = {
    AgentStatus.RUNNING: EventKind.AGENT_STARTED,
    AgentStatus.STOPPED: EventKind.AGENT_STOPPED,
    AgentStatus.PAUSED: EventKind.AGENT_PAUSED,
    AgentStatus.ERROR: EventKind.AGENT_ERROR,
}


def record_status(
    connection: AsyncConnection,
    agent_id: str,
    name: str,
    was: AgentStatus,
    status: AgentStatus,
    error: str | None = None,
    *,
    by: str | None = None,
) -> None:
    """Record the event of an agent's new status; `idle` has none.

    Args:
        by: whose doing it is, where nobody asked for it.
    """
    subject = {"agentId": agent_id, "name": name, "status": status.value}
    if error is not None:
        subject["error"] = error
    before, after = {"status": was.value}, {"status": status.value}
    record_act(connection, _KINDS[status], subject, before, after, by=by)
