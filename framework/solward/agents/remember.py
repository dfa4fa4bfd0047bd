"""Remember: entering and leaving cycles in the store, many of them in each write transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents.batch import Batcher
from solward.agents.budget import NOTHING_USED, TokensUsed
from solward.agents.cycle import Entered, Standing
from solward.agents.decisions import Decision, MemoryEntry
from solward.agents.memory_cache import RecentMemory
from solward.agents.model import Agent, AgentStatus, DesiredState, agent_of
from solward.audit import outbox
from solward.clock import now_ms
from solward.events import EventKind
from solward.provider import Usage
from solward.store import agents as agent_store
from solward.store import cycles as store
from solward.telemetry import metrics
from solward.vault.store.database import Database

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Leaving:
    decision: Decision
    fence: int
    standing: Standing


class Journal:
    """The store as cycles use it; decisions reach the audit log with the cycle, or not at all."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent = RecentMemory()
        self._entering: Batcher[tuple[str, int], Entered | None] = Batcher(self._enter)
        self._leaving: Batcher[_Leaving, bool] = Batcher(self._leave)
        self._abandoning: Batcher[tuple[str, int], None] = Batcher(self._abandon)

    async def enter(self, agent_id: str, cycle: int) -> Entered | None:
        """Take the fence; None when the cycle is stale or the agent is no longer to run."""
        return await self._entering((agent_id, cycle))

    async def leave(self, decision: Decision, fence: int, standing: Standing) -> bool:
        """Record the decision and move on; False when the agent is not to run further.

        Nothing is recorded when another run has taken the fence.
        """
        return await self._leaving(_Leaving(decision, fence, standing))

    async def abandon(self, agent_id: str, fence: int) -> None:
        """Take back that a cycle was entered, so that it can be run again at once."""
        await self._abandoning((agent_id, fence))

    async def _abandon(self, runs: Sequence[tuple[str, int]]) -> list[None]:
        async with self._database.write() as connection:
            await store.abandon(connection, runs)
        return [None] * len(runs)

    async def _enter(self, wanted: Sequence[tuple[str, int]]) -> list[Entered | None]:
        async with self._database.write() as connection:
            rows = await store.enter(connection, wanted)
            agents = [agent_of(row) for row in rows if row is not None]
            unknown = [agent.id for agent in agents if not self._recent.knows(agent)]
            recalled = await store.recall(connection, unknown)
            used = await used_today(connection, agents)
        entered: dict[str, Entered] = {}
        for agent in agents:
            found = recalled.get(agent.id)
            taken = None
            if found is not None:
                taken = found.taken
                self._recent.learn(agent, tuple(map(MemoryEntry._make, found.memory)))
            memory = self._recent.entered(agent)
            spent = used.get(agent.id, NOTHING_USED)
            entered[agent.id] = Entered(agent, memory, taken, spent)
        return [None if row is None else entered[row["id"]] for row in rows]

    async def _leave(self, leaving: Sequence[_Leaving]) -> list[bool]:
        async with self._database.write() as connection:
            left = await store.leave(connection, [_row(each) for each in leaving])
            used: list[dict[str, Any]] = []
            for each, was in zip(leaving, left, strict=True):
                if was is None:
                    continue
                decision = each.decision
                if decision.usage is not None:
                    used.append(usage_row(decision.agent_id, decision.created_ms, decision.usage))
                outbox.record(connection, EventKind.AGENT_DECISION, decision.to_json())
                if _turned_error(each, was):
                    tell(
                        connection,
                        decision.agent_id,
                        was.name,
                        AgentStatus.ERROR,
                        each.standing.error,
                    )
            await agent_store.add_usage(connection, used)
        for each, was in zip(leaving, left, strict=True):
            metrics.CYCLES.labels(_outcome(each, was)).inc()
            if was is not None:
                self._recent.left(each.decision, each.fence)
        running = DesiredState.RUNNING.value
        return [was is not None and was.desired_state == running for was in left]


async def used_today(connection: AsyncConnection, agents: Sequence[Agent]) -> dict[str, TokensUsed]:
    """What agents used in the last day, of those whose budget counts it."""
    counted = [agent.id for agent in agents if agent.llm_budget.daily]
    if not counted:
        return {}
    rows = await agent_store.used(connection, counted, now_ms() // _HOUR_MS)
    return {agent_id: _tokens_used(row) for agent_id, row in rows.items()}


async def used_of(connection: AsyncConnection, agent_id: str) -> TokensUsed:
    """What one agent used in the last day."""
    rows = await agent_store.used(connection, [agent_id], now_ms() // _HOUR_MS)
    return _tokens_used(rows[agent_id]) if rows else NOTHING_USED


def _tokens_used(row: dict[str, Any]) -> TokensUsed:
    return TokensUsed(row["tokens"], row["cost_nanousd"], row["unpriced_tokens"])


def usage_row(agent_id: str, ms: int, usage: Usage) -> dict[str, Any]:
    """What a completion at `ms` adds to `agent_usage`."""
    cost = usage.cost_nanousd
    return {
        "agent_id": agent_id,
        "hour": ms // _HOUR_MS,
        "tokens": usage.tokens,
        "cost_nanousd": cost or 0,
        "unpriced_tokens": usage.tokens if cost is None else 0,
    }


def _row(leaving: _Leaving) -> store.LeavingCycle:
    standing = leaving.standing
    return store.LeavingCycle(
        agent_id=leaving.decision.agent_id,
        fence=leaving.fence,
        next_run_ms=standing.next_run_ms,
        status=standing.status,
        failures=standing.failures,
        error=standing.error,
        decision=leaving.decision.to_row(),
    )


def _outcome(leaving: _Leaving, was: store.LeftCycle | None) -> str:
    if was is None:
        metrics.FENCED.labels("leave").inc()
        return "fenced"
    if leaving.standing.error is not None:
        return "failed"
    action = leaving.decision.action
    return "waited" if action is None or action.startswith("wait(") else "acted"


def _turned_error(leaving: _Leaving, was: store.LeftCycle) -> bool:
    error = AgentStatus.ERROR.value
    asked = was.desired_state == DesiredState.RUNNING.value
    return asked and leaving.standing.status == error and was.status != error


_KINDS = {
    AgentStatus.RUNNING: EventKind.AGENT_STARTED,
    AgentStatus.STOPPED: EventKind.AGENT_STOPPED,
    AgentStatus.PAUSED: EventKind.AGENT_PAUSED,
    AgentStatus.ERROR: EventKind.AGENT_ERROR,
}


def tell(
    connection: AsyncConnection,
    agent_id: str,
    name: str,
    status: AgentStatus,
    error: str | None = None,
) -> None:
    """Record the event of an agent that just got this status; there is none for `idle`."""
    told = {"agentId": agent_id, "name": name, "status": status.value}
    if error is not None:
        told["error"] = error
    outbox.record(connection, _KINDS[status], told)
