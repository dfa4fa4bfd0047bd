"""The memory of agents whose last cycle this process ran, so that it need not be read back.

Only leaving a cycle adds to an agent's memory, and whoever enters one takes the next fence. So what
is kept here is the store's, as long as nobody else took a fence since the cycle was left.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from solward.agents.decisions import Decision, MemoryEntry
from solward.agents.model import Agent
from solward.store.cycles import MEMORY_GIVEN

# Ten entries have a few kilobytes, at most 200.
AGENTS = 4_096


@dataclass(frozen=True, slots=True)
class _Known:
    fence: int
    cycle: int
    entries: tuple[MemoryEntry, ...]
    left: bool


class RecentMemory:
    """The latest entries of the agents that ran last, newest first."""

    def __init__(self, agents: int = AGENTS) -> None:
        self._agents = agents
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def knows(self, agent: Agent) -> bool:
        """Whether nobody else can have run the agent since; `agent` has just entered a cycle.

        If so, no earlier run of this cycle took an action either.
        """
        known = self._known.get(agent.id)
        return (
            known is not None
            and known.left
            and ((known.fence, known.cycle) == (agent.fence - 1, agent.cycle_no))
        )

    def learn(self, agent: Agent, entries: tuple[MemoryEntry, ...]) -> None:
        """Take over what the store says of an agent that has just entered a cycle."""
        self._keep(agent.id, _Known(agent.fence, agent.cycle_no, entries, left=False))

    def entered(self, agent: Agent) -> tuple[MemoryEntry, ...]:
        """The memory of an agent that has just entered a cycle, known or learned."""
        entries = self._known[agent.id].entries
        self._keep(agent.id, _Known(agent.fence, agent.cycle_no, entries, left=False))
        return entries

    def left(self, decision: Decision, fence: int) -> None:
        """Remember a cycle that was left with this fence."""
        known = self._known.pop(decision.agent_id, None)
        if known is None or (known.fence, known.cycle) != (fence, decision.cycle):
            return
        entry = MemoryEntry(
            decision.cycle,
            decision.reasoning,
            decision.action,
            decision.outcome,
            decision.created_ms,
        )
        entries = (entry, *known.entries[: MEMORY_GIVEN - 1])
        self._keep(decision.agent_id, _Known(fence, decision.cycle + 1, entries, left=True))

    def _keep(self, agent_id: str, known: _Known) -> None:
        self._known[agent_id] = known
        self._known.move_to_end(agent_id)
        while len(self._known) > self._agents:
            self._known.popitem(last=False)
