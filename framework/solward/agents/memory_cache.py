"""Memory entries of the agents this process ran last, so that they need not be read again.

Only leaving a cycle adds to an agent's memory, and entering one takes the next fence. So the cached
entries equal the stored ones as long as no other process took a fence since.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from solward.agents.agent import Agent
from solward.agents.decisions import Decision, MemoryEntry
from solward.agents.store.cycles import MEMORY_GIVEN

# Ten entries take a few kilobytes, at most 200.
AGENTS = 4_096


@dataclass(frozen=True, slots=True)
class _Cached:
    fence: int
    cycle: int
    entries: tuple[MemoryEntry, ...]
    left: bool


class MemoryCache:
    """The latest entries of the agents that ran last, newest first."""

    def __init__(self, agents: int = AGENTS) -> None:
        self._agents = agents
        self._cached: OrderedDict[str, _Cached] = OrderedDict()

    def is_current(self, agent: Agent) -> bool:
        """Whether no other process can have run the agent since; it has just entered a cycle.

        If so, no earlier run of this cycle took an action either.
        """
        cached = self._cached.get(agent.id)
        return (
            cached is not None
            and cached.left
            and ((cached.fence, cached.cycle) == (agent.fence - 1, agent.cycle_no))
        )

    def put(self, agent: Agent, entries: tuple[MemoryEntry, ...]) -> None:
        """Cache the stored entries of an agent that has just entered a cycle."""
        self._put(agent.id, _Cached(agent.fence, agent.cycle_no, entries, left=False))

    def enter(self, agent: Agent) -> tuple[MemoryEntry, ...]:
        """The entries of an agent that has just entered a cycle; current, or `put` before."""
        entries = self._cached[agent.id].entries
        self.put(agent, entries)
        return entries

    def leave(self, decision: Decision, fence: int) -> None:
        """Add the entry of a cycle that was left with this fence."""
        cached = self._cached.pop(decision.agent_id, None)
        if cached is None or (cached.fence, cached.cycle) != (fence, decision.cycle):
            return
        entry = MemoryEntry(
            decision.cycle,
            decision.reasoning,
            decision.action,
            decision.outcome,
            decision.created_ms,
        )
        entries = (entry, *cached.entries[: MEMORY_GIVEN - 1])
        self._put(decision.agent_id, _Cached(fence, decision.cycle + 1, entries, left=True))

    def _put(self, agent_id: str, cached: _Cached) -> None:
        self._cached[agent_id] = cached
        self._cached.move_to_end(agent_id)
        while len(self._cached) > self._agents:
            self._cached.popitem(last=False)
