"""Agents with their limits, budgets, status, decisions and memory, as rows and as JSON."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from solward.database import tables
from solward.database.records import EXACT, Form, Records, enum_form
from solward.resources import agents
from solward.resources.agents import AgentStatus, Memory
from solward.resources.declare import answer_json
from solward.support import jsontext
from solward.types.guardrail import CEILINGS
from solward.types.money import LAMPORTS_PER_SOL, from_units
from solward.types.provider import Usage
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.store.wallets import RATE_CEILING, ceilings_json

_USD_DECIMALS = 9
NANOUSD = 10**_USD_DECIMALS


class DesiredState(StrEnum):
    """An agent's last command: start, pause or stop. A restarted service obeys the command."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


def guardrails_json(limits: ScopeLimits) -> dict[str, Decimal | int]:
    """Return an agent's own limits as the API's `guardrails` object, in SOL."""
    units = {name: getattr(limits, attribute) for name, attribute in CEILINGS.items()}
    return ceilings_json({name: each for name, each in units.items() if each is not None})


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Token limits of one agent; None means no limit. A day is this and the 24 hours before.

    Attributes:
        usd_by_default: whether the limit in dollars is the default, which does not stop a model
            whose price is not known.
    """

    max_tokens_per_cycle: int | None = None
    max_tokens_per_day: int | None = None
    max_nanousd_per_day: int | None = None
    usd_by_default: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the limits that are set, by their names in the API."""
        usd = self.max_nanousd_per_day
        values = {
            "maxTokensPerCycle": self.max_tokens_per_cycle,
            "maxTokensPerDay": self.max_tokens_per_day,
            "maxUsdPerDay": None if usd is None else usd_of(usd),
        }
        return {name: value for name, value in values.items() if value is not None}

    def to_stored(self) -> dict[str, Any]:
        """Return `to_json`, with `usdByDefault` if the dollar limit is the default, to store it."""
        return self.to_json() | ({"usdByDefault": True} if self.usd_by_default else {})


UNLIMITED = TokenBudget()
DEFAULT_BUDGET = TokenBudget(max_nanousd_per_day=5 * NANOUSD, usd_by_default=True)


@dataclass(frozen=True, slots=True)
class TokensUsed:
    """The tokens that an agent used in the last day, and their price.

    Attributes:
        nanousd: estimated price in billionths of a US dollar of the tokens whose price is known.
        unpriced: the number of tokens whose price is not known.
    """

    tokens: int = 0
    nanousd: int = 0
    unpriced: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the `{tokens, usd, unpricedTokens}` of an answer."""
        return {"tokens": self.tokens, "usd": usd_of(self.nanousd), "unpricedTokens": self.unpriced}


NOTHING_USED = TokensUsed()


def usd_of(nanousd: int) -> Decimal:
    """Convert billionths of a US dollar to dollars, exactly."""
    return from_units(nanousd, _USD_DECIMALS)


def budget_of(stored: Mapping[str, Any]) -> TokenBudget:
    """Return a budget from its JSON in the form of `to_json` or `to_stored`."""
    usd = stored.get("maxUsdPerDay")
    return TokenBudget(
        stored.get("maxTokensPerCycle"),
        stored.get("maxTokensPerDay"),
        None if usd is None else int(Decimal(usd) * NANOUSD),
        stored.get("usdByDefault", False),
    )


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent.

    Attributes:
        loop_interval_ms: milliseconds from the start of a cycle to the start of the next.
        next_run_ms: due time of its next cycle; None before the first start.
        cycle_no: the number of its next cycle, from 1.
        fence: fencing token, which increases with every entered cycle; a run without the current
            token can change nothing.
        failures: the number of consecutive failed cycles.
        error: why the last cycle failed, else None.
        llm_options: the options for the provider, which its schema defines.
        llm_budget: limits on the model's tokens and their price.
        is_llm: False if its provider is not a language model (the rule-based demo).
    """

    id: str
    name: str
    wallet_id: str
    llm_provider: str
    llm_model: str
    strategy: str
    guardrails: ScopeLimits
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

    def to_json(self) -> dict[str, Any]:
        """Return the answer of `GET /agents/:id`, with `error` only while its cycles fail."""
        return answer_json(
            agents.Agent,
            self,
            llm_options=dict(self.llm_options),
            llm_budget=self.llm_budget.to_json(),
            guardrails=guardrails_json(self.guardrails),
        )

    def to_audit(self) -> dict[str, Any]:
        """Return the fields that the owner chose, as the audit log records their changes."""
        body = self.to_json()
        for chosen_by_others in ("id", "isLlm", "status", "createdAt", "error"):
            body.pop(chosen_by_others, None)
        return body

    def to_row(self) -> dict[str, Any]:
        """Return the columns of the agents table."""
        return _AGENTS.row(self)


def agent_of(row: Mapping[str, Any], *, is_llm: bool = True) -> Agent:
    """Return an agent from its row."""
    return _AGENTS.from_row(row, is_llm=is_llm)


# Cached, because every cycle parses these texts, and only few of them differ.
@functools.lru_cache(maxsize=1_024)
def _guardrails_of(text: str) -> ScopeLimits:
    stored = jsontext.loads(text)
    units: dict[str, Any] = {
        CEILINGS[name]: int(each if name == RATE_CEILING else each * LAMPORTS_PER_SOL)
        for name, each in stored.items()
    }
    return ScopeLimits(**units)


@functools.lru_cache(maxsize=1_024)
def _budget_of(text: str) -> TokenBudget:
    return budget_of(jsontext.loads(text))


_AGENTS = Records(
    Agent,
    tables.agents,
    guardrails=Form(_guardrails_of, lambda limits: jsontext.dumps(guardrails_json(limits))),
    status=enum_form(AgentStatus),
    desired_state=enum_form(DesiredState),
    llm_options=EXACT,
    llm_budget=Form(_budget_of, lambda budget: jsontext.dumps(budget.to_stored())),
)


def statistics_json(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the `agents` object of the health answer from counts by status."""
    total, running = sum(counts.values()), counts.get(AgentStatus.RUNNING, 0)
    return {
        "total": total,
        "running": running,
        "totalAgents": total,
        "runningAgents": running,
        "stoppedAgents": counts.get(AgentStatus.STOPPED, 0),
        "idleAgents": counts.get(AgentStatus.IDLE, 0),
    }


class MemoryEntry(NamedTuple):
    """An entry of an agent's memory, which describes one cycle.

    It is a tuple, because each cycle makes ten, and making a dataclass takes five times as long.
    """

    cycle: int
    reasoning: str
    action: str | None
    outcome: str
    created_ms: int

    def to_json(self) -> dict[str, Any]:
        """Return the entry as `GET /agents/:id/memory` lists it."""
        return answer_json(Memory, self)


@dataclass(frozen=True, slots=True)
class Decision:
    """The record of one cycle: its observation, decision and action.

    Attributes:
        observations: the observation, JSON-able; amounts are Decimal.
        action: `skill({"its": "parameters"})`, None if nothing was done.
        usage: the model's tokens, None if no model was called or no tokens were reported.
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
        """Return the decision as `GET /agents/:id/decisions` lists it; `usage` only if known."""
        usage = None if self.usage is None else usage_json(self.usage)
        return answer_json(agents.Decision, self, usage=usage)

    def to_row(self) -> dict[str, Any]:
        """Return the columns of the decisions table."""
        usage = {name: getattr(self.usage, name, None) for name in _USAGE}
        return _DECISIONS.row(self) | usage


_DECISIONS = Records(Decision, tables.decisions, observations=EXACT)
_USAGE = ("input_tokens", "output_tokens", "cost_nanousd")


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return `{inputTokens, outputTokens, costUsd}`; `costUsd` is null if the cost is not known."""
    cost = usage.cost_nanousd
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "costUsd": None if cost is None else usd_of(cost),
    }


def decision_of(row: Mapping[str, Any]) -> Decision:
    """Return a decision from its row."""
    usage = None if row["input_tokens"] is None else Usage(*(row[name] for name in _USAGE))
    return _DECISIONS.from_row(row, usage=usage)
