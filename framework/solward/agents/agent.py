"""An agent, its limits and its status, as rows and as JSON."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import Any

from solward.agents.budget import UNLIMITED, TokenBudget, budget_of
from solward.resources import agents
from solward.resources.agents import AgentStatus
from solward.resources.answers import answer_json
from solward.support import jsontext
from solward.types.money import lamports_to_sol
from solward.vault.guardrails import ScopeLimits


class DesiredState(StrEnum):
    """The last of start, pause and stop; a restarted service obeys this, not the status."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class AgentGuardrails:
    """An agent's own limits, in lamports; part of its prompt, and enforced by the engine.

    Attributes:
        daily_costs_lamports: fees and rent in 24 hours; None where its wallet's ceiling is enough.
    """

    max_lamports_per_transaction: int
    max_transactions_per_minute: int
    daily_lamports: int
    daily_costs_lamports: int | None = None

    @property
    def limits(self) -> ScopeLimits:
        """The same in the engine's type."""
        return ScopeLimits(
            max_lamports_per_tx=self.max_lamports_per_transaction,
            max_tx_per_minute=self.max_transactions_per_minute,
            daily_lamports=self.daily_lamports,
            daily_costs_lamports=self.daily_costs_lamports,
        )

    def to_json(self) -> dict[str, Decimal | int]:
        """The API's `guardrails` object, in SOL."""
        shown: dict[str, Decimal | int] = {
            "maxSolPerTransaction": lamports_to_sol(self.max_lamports_per_transaction),
            "maxTransactionsPerMinute": self.max_transactions_per_minute,
            "dailySpendingLimitSol": lamports_to_sol(self.daily_lamports),
        }
        if self.daily_costs_lamports is not None:
            shown["maxCostsSolPerDay"] = lamports_to_sol(self.daily_costs_lamports)
        return shown


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent.

    Attributes:
        loop_interval_ms: milliseconds from the start of a cycle to the start of the next.
        next_run_ms: when its next cycle is due; None before the first start.
        cycle_no: the number of its next cycle, from 1.
        fence: fencing token, higher with every entered cycle; a run without the current one can
            change nothing.
        failures: cycles in a row that failed.
        error: why the last one failed, else None.
        llm_options: the provider's options, by its own schema.
        llm_budget: limits on the model's tokens and their price.
        is_llm: False when its provider is not a language model (the rule-based demo).
    """

    id: str
    name: str
    wallet_id: str
    llm_provider: str
    llm_model: str
    strategy: str
    guardrails: AgentGuardrails
    loop_interval_ms: int
    status: AgentStatus
    desired_state: DesiredState
    created_ms: int
    next_run_ms: int | None = None
    cycle_no: int = 1
    fence: int = 0
    failures: int = 0
    error: str | None = None
    llm_options: Mapping[str, Any] = field(default_factory=dict)
    llm_budget: TokenBudget = UNLIMITED
    is_llm: bool = True

    @property
    def limits(self) -> ScopeLimits:
        """The agent's limits in the engine's type."""
        return self.guardrails.limits

    def to_json(self) -> dict[str, Any]:
        """As `GET /agents/:id` returns it; `error` only while its cycles fail."""
        return answer_json(
            agents.Agent,
            self,
            llm_options=dict(self.llm_options),
            llm_budget=self.llm_budget.to_json(),
            guardrails=self.guardrails.to_json(),
        )

    def audited(self) -> dict[str, Any]:
        """What its owner chose, as the audit log tells it before and after a change."""
        body = self.to_json()
        for chosen_by_others in ("id", "isLlm", "status", "createdAt", "error"):
            body.pop(chosen_by_others, None)
        return body

    def to_row(self) -> dict[str, Any]:
        """The columns of the agents table."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        del columns["is_llm"]
        return columns | {
            "guardrails": guardrails_text(self.guardrails),
            "status": self.status.value,
            "desired_state": self.desired_state.value,
            "llm_options": jsontext.dumps(dict(self.llm_options)),
            "llm_budget": jsontext.dumps(self.llm_budget.stored()),
        }


# Columns of the placement of cycles, which are no fields of the agent.
_PLACEMENT = frozenset({"entered_ms", "deferred_cycle"})


def agent_of(row: Mapping[str, Any], *, is_llm: bool = True) -> Agent:
    """An agent from its row."""
    columns = {name: value for name, value in row.items() if name not in _PLACEMENT}
    columns["guardrails"] = _guardrails_of(columns["guardrails"])
    columns["llm_options"] = jsontext.loads(columns["llm_options"])
    columns["llm_budget"] = _budget_of(columns["llm_budget"])
    columns["status"] = AgentStatus(columns["status"])
    columns["desired_state"] = DesiredState(columns["desired_state"])
    return Agent(**columns, is_llm=is_llm)


# Parsed in every cycle, and nearly always one of a few texts.
@functools.lru_cache(maxsize=1_024)
def _guardrails_of(text: str) -> AgentGuardrails:
    stored = jsontext.loads(text)
    costs = stored.get("maxCostsSolPerDay")
    return AgentGuardrails(
        max_lamports_per_transaction=int(stored["maxSolPerTransaction"] * 10**9),
        max_transactions_per_minute=int(stored["maxTransactionsPerMinute"]),
        daily_lamports=int(stored["dailySpendingLimitSol"] * 10**9),
        daily_costs_lamports=None if costs is None else int(costs * 10**9),
    )


@functools.lru_cache(maxsize=1_024)
def _budget_of(text: str) -> TokenBudget:
    return budget_of(jsontext.loads(text))


def guardrails_text(guardrails: AgentGuardrails) -> str:
    """Guardrails as the store keeps them: JSON with exact decimals."""
    return jsontext.dumps(guardrails.to_json())


@dataclass(frozen=True, slots=True)
class AgentStatistics:
    """How many agents there are, in all and by status."""

    total: int
    running: int
    stopped: int
    idle: int
    paused: int
    error: int

    def to_json(self) -> dict[str, int]:
        """Both shapes of the health answer's `agents` object."""
        return {
            "total": self.total,
            "running": self.running,
            "totalAgents": self.total,
            "runningAgents": self.running,
            "stoppedAgents": self.stopped,
            "idleAgents": self.idle,
        }
