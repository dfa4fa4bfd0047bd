"""Agents: what one is made of, and changed by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from solward.resources import examples
from solward.resources.answers import Answer
from solward.resources.declare import Call, Part, Request
from solward.resources.fields import (
    Flag,
    GrantList,
    Id,
    Json,
    Shape,
    Sol,
    Text,
    Time,
    Usd,
    WalletId,
    Whole,
)
from solward.resources.schema import ref

_MOST_TOKENS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrails(Request):
    """An agent's own limits; what is left out is the service's."""

    max_sol_per_transaction: Annotated[
        Decimal | int | None,
        Sol(
            "SOL in one transaction.",
            title="Most SOL in a transaction",
            example=0.5,
        ),
    ] = None
    max_transactions_per_minute: Annotated[
        int | None,
        Whole(
            "Transactions in any 60 seconds.",
            least=1,
            most=1_000_000,
            title="Most transactions in a minute",
            example=5,
        ),
    ] = None
    daily_spending_limit_sol: Annotated[
        Decimal | int | None,
        Sol(
            "SOL in any 24 hours.",
            title="Most SOL in 24 hours",
            example=10,
        ),
    ] = None
    max_costs_sol_per_day: Annotated[
        Decimal | int | None,
        Sol(
            "SOL of fees and rent in any 24 hours; without one, the wallet's ceiling holds.",
            title="Most SOL of fees and rent in 24 hours",
            example=0.02,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmBudget(Request):
    """What an agent's model may use; null is no limit."""

    max_tokens_per_cycle: Annotated[
        int | None,
        Whole(
            "Tokens of prompt and answer in a cycle.",
            least=1,
            most=_MOST_TOKENS,
            title="Most tokens in a cycle",
        ),
    ] = None
    max_tokens_per_day: Annotated[
        int | None,
        Whole(
            "Tokens of prompt and answer in a day.",
            least=1,
            most=_MOST_TOKENS,
            title="Most tokens in a day",
        ),
    ] = None
    max_usd_per_day: Annotated[
        Decimal | int | None,
        Usd(
            "Estimated US dollars in a day; 5 where nobody chooses.",
            most=10**6,
            title="Most US dollars of the model in a day",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Agent(Answer):
    """An agent.

    Attributes:
        guardrails: its own limits, in SOL.
    """

    id: Annotated[str, Id("The agent.", example=examples.AGENT)]
    name: Annotated[str, Text("For people.", example="saver")]
    wallet_id: Annotated[str, Id("The wallet it uses.", example=examples.WALLET)]
    status: Annotated[
        str,
        Shape("See docs/agents.md.", form=ref("AgentStatus"), example="idle"),
    ]
    llm_provider: Annotated[str, Text("The provider's name.", example="rules")]
    llm_model: Annotated[str, Text("The model's name.", example="rules")]
    strategy: Annotated[str, Text("What it is to do.", example="always do wait")]
    loop_interval_ms: Annotated[
        int,
        Whole("From the start of a cycle to the next.", least=1_000, most=2**31 - 1, example=5_000),
    ]
    guardrails: Annotated[
        Mapping[str, Any],
        Shape(
            "Its own limits.",
            form=ref("Guardrails"),
            example={
                "maxSolPerTransaction": 0.5,
                "maxTransactionsPerMinute": 5,
                "dailySpendingLimitSol": 10,
            },
        ),
    ]
    llm_options: Annotated[Mapping[str, Any], Json("By the provider's own schema.", example={})]
    llm_budget: Annotated[
        Mapping[str, Any],
        Shape("What is absent has no limit.", form=ref("LlmBudget"), example={"maxUsdPerDay": 5}),
    ]
    is_llm: Annotated[bool, Flag("False for the rule-based demo provider.", example=False)]
    created_at: Annotated[datetime, Time("When it was made.", example="2026-11-21T10:49:52.500Z")]
    error: Annotated[str | None, Text("Why its last cycle failed; only then.")] = None


_NAME = Text("For people.", most=100, example="saver")
_PROVIDER = Text("A loaded provider.", most=100)
_MODEL = Text("The provider's model.")
_STRATEGY = Text("What it is to do.", most=20_000, example="always do wait")
_INTERVAL = Whole(
    "Milliseconds from the start of a cycle to the next.",
    # The most is about 24.8 days, the longest timer of 32 bits.
    least=1_000,
    most=2**31 - 1,
    example=5_000,
)
_OPTIONS = Json("By the provider's own schema.")
_BESIDE = "each of them is a field of its own there"
_RAILS = Part(
    "Its own limits; each may stand beside it instead.",
    kind=Guardrails,
    left_out={"cli": _BESIDE, "dashboard": _BESIDE},
)
_BUDGET = Part("What its model may use.", kind=LlmBudget)
_GRANTS = GrantList("What it may do; `[]`: it only reads.", cli="--grant")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent(Guardrails):
    """An agent that is to be made. Guardrails may stand at the top level or in `guardrails`."""

    name: Annotated[str, _NAME]
    wallet_id: Annotated[
        str | None,
        WalletId("The wallet it uses; without one it gets a new one.", most=100, cli="--wallet"),
    ] = None
    llm_provider: Annotated[str | None, _PROVIDER] = None
    llm_model: Annotated[str | None, _MODEL] = None
    strategy: Annotated[str | None, _STRATEGY] = None
    loop_interval_ms: Annotated[int, _INTERVAL] = 60_000
    llm_options: Annotated[Mapping[str, Any] | None, _OPTIONS] = None
    llm_budget: Annotated[Mapping[str, Any] | None, _BUDGET] = None
    guardrails: Annotated[
        Mapping[str, Any] | None,
        _RAILS,
    ] = None
    grants: Annotated[Sequence[Any] | None, _GRANTS] = None
    template: Annotated[
        str | None, Text("Gives what is left out; `solward agent templates` lists them.")
    ] = None
    template_parameters: Annotated[
        Mapping[str, Any] | None, Json("By the template's schema.", cli="--set")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChange(Guardrails):
    """What is to change of an agent; what is left out stays."""

    name: Annotated[str | None, _NAME] = None
    llm_provider: Annotated[str | None, _PROVIDER] = None
    llm_model: Annotated[str | None, _MODEL] = None
    strategy: Annotated[str | None, _STRATEGY] = None
    loop_interval_ms: Annotated[int | None, _INTERVAL] = None
    llm_options: Annotated[Mapping[str, Any] | None, _OPTIONS] = None
    llm_budget: Annotated[Mapping[str, Any] | None, _BUDGET] = None
    guardrails: Annotated[
        Mapping[str, Any] | None,
        _RAILS,
    ] = None
    grants: Annotated[
        Sequence[Any] | None,
        replace(_GRANTS, left_out={"dashboard": "the page of the policy changes them"}),
    ] = None


AGENT_CALLS = (
    Call(
        "create",
        "Make an agent, idle. Without a wallet and with `max_sol_per_transaction` it gets a new"
        " wallet, and the service's default provider and model may do; so with `template`.",
        "POST",
        "/agents",
        NewAgent,
        Agent,
        is_short=True,
    ),
    Call(
        "change",
        "Change the given fields; a running agent goes by them from its next cycle, by `grants` at"
        " once. A number of `llm_budget` that is None removes that limit.",
        "PATCH",
        "/agents/{agent_id}",
        AgentChange,
        Agent,
    ),
)
