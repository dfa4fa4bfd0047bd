"""Decisions and memory entries of an agent, as rows and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from solward.agents.budget import usd_of
from solward.resources import agents
from solward.resources.agents import Memory
from solward.resources.answers import answer_json
from solward.support import jsontext
from solward.types.provider import Usage


class MemoryEntry(NamedTuple):
    """What an agent remembers of one cycle.

    A tuple, because each cycle makes ten and a dataclass takes five times as long.
    """

    cycle: int
    reasoning: str
    action: str | None
    outcome: str
    created_ms: int

    def to_json(self) -> dict[str, Any]:
        """As `GET /agents/:id/memory` lists it."""
        return answer_json(Memory, self)


def memory_of(row: Mapping[str, Any]) -> MemoryEntry:
    """A memory entry from its row."""
    return MemoryEntry(
        row["cycle"], row["reasoning"], row["action"], row["outcome"], row["created_ms"]
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """One cycle: what was observed, decided and done.

    Attributes:
        observations: the observation, JSON-able; amounts are Decimal.
        action: `skill({"its": "parameters"})`, None when nothing was done.
        usage: the model's tokens, None where no model was called or it reported none.
    """

    agent_id: str
    cycle: int
    observations: Mapping[str, Any]
    reasoning: str
    action: str | None
    outcome: str
    created_ms: int
    usage: Usage | None = None

    def to_json(self) -> dict[str, Any]:
        """As `GET /agents/:id/decisions` lists it, with `usage` where it is known."""
        usage = None if self.usage is None else usage_json(self.usage)
        return answer_json(agents.Decision, self, usage=usage)

    def to_row(self) -> dict[str, Any]:
        """The columns of the decisions table."""
        usage = self.usage
        return {
            "agent_id": self.agent_id,
            "cycle": self.cycle,
            "observations": jsontext.dumps(dict(self.observations)),
            "reasoning": self.reasoning,
            "action": self.action,
            "outcome": self.outcome,
            "created_ms": self.created_ms,
            "input_tokens": None if usage is None else usage.input_tokens,
            "output_tokens": None if usage is None else usage.output_tokens,
            "cost_nanousd": None if usage is None else usage.cost_nanousd,
        }


def usage_json(usage: Usage) -> dict[str, Any]:
    """`{inputTokens, outputTokens, costUsd}`; the price is null where it is not known."""
    cost = usage.cost_nanousd
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "costUsd": None if cost is None else usd_of(cost),
    }


def decision_of(row: Mapping[str, Any]) -> Decision:
    """A decision from its row."""
    return Decision(
        row["agent_id"],
        row["cycle"],
        jsontext.loads(row["observations"]),
        row["reasoning"],
        row["action"],
        row["outcome"],
        row["created_ms"],
        _usage_of(row),
    )


def _usage_of(row: Mapping[str, Any]) -> Usage | None:
    if row["input_tokens"] is None:
        return None
    return Usage(row["input_tokens"], row["output_tokens"], row["cost_nanousd"])
