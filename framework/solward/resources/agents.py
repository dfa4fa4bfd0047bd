"""Agents: what one is made of, and changed by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from solward.resources import examples
from solward.resources.answers import Answer, answer_schema
from solward.resources.declare import Call, Part, Request, declared, resource
from solward.resources.fields import (
    Flag,
    GrantList,
    Id,
    Json,
    Number,
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


@resource
class Guardrails(Request):
    """An agent's own limits; what is left out is the service's."""

    max_sol_per_transaction: Decimal | int | None = declared(
        Sol("SOL in one transaction.", title="Most SOL in a transaction", example=0.5), default=None
    )
    max_transactions_per_minute: int | None = declared(
        Whole(
            "Transactions in any 60 seconds.",
            least=1,
            most=1_000_000,
            title="Most transactions in a minute",
            example=5,
        ),
        default=None,
    )
    daily_spending_limit_sol: Decimal | int | None = declared(
        Sol("SOL in any 24 hours.", title="Most SOL in 24 hours", example=10), default=None
    )
    max_costs_sol_per_day: Decimal | int | None = declared(
        Sol(
            "SOL of fees and rent in any 24 hours; without one, the wallet's ceiling holds.",
            title="Most SOL of fees and rent in 24 hours",
            example=0.02,
        ),
        default=None,
    )


@resource
class LlmBudget(Request):
    """What an agent's model may use; null is no limit."""

    max_tokens_per_cycle: int | None = declared(
        Whole(
            "Tokens of prompt and answer in a cycle.",
            least=1,
            most=_MOST_TOKENS,
            title="Most tokens in a cycle",
        ),
        default=None,
    )
    max_tokens_per_day: int | None = declared(
        Whole(
            "Tokens of prompt and answer in a day.",
            least=1,
            most=_MOST_TOKENS,
            title="Most tokens in a day",
        ),
        default=None,
    )
    max_usd_per_day: Decimal | int | None = declared(
        Usd(
            "Estimated US dollars in a day; 5 where nobody chooses.",
            most=10**6,
            title="Most US dollars of the model in a day",
        ),
        default=None,
    )


@resource
class Agent(Answer):
    """An agent.

    Attributes:
        guardrails: its own limits, in SOL.
    """

    id: str = declared(Id("The agent.", example=examples.AGENT))
    name: str = declared(Text("For people.", example="saver"))
    wallet_id: str = declared(Id("The wallet it uses.", example=examples.WALLET))
    status: str = declared(Shape("See docs/agents.md.", form=ref("AgentStatus"), example="idle"))
    llm_provider: str = declared(Text("The provider's name.", example="rules"))
    llm_model: str = declared(Text("The model's name.", example="rules"))
    strategy: str = declared(Text("What it is to do.", example="always do wait"))
    loop_interval_ms: int = declared(
        Whole("From the start of a cycle to the next.", least=1_000, most=2**31 - 1, example=5_000)
    )
    guardrails: Mapping[str, Any] = declared(
        Shape(
            "Its own limits.",
            form=ref("Guardrails"),
            example={
                "maxSolPerTransaction": 0.5,
                "maxTransactionsPerMinute": 5,
                "dailySpendingLimitSol": 10,
            },
        )
    )
    llm_options: Mapping[str, Any] = declared(Json("By the provider's own schema.", example={}))
    llm_budget: Mapping[str, Any] = declared(
        Shape("What is absent has no limit.", form=ref("LlmBudget"), example={"maxUsdPerDay": 5})
    )
    is_llm: bool = declared(Flag("False for the rule-based demo provider.", example=False))
    created_at: datetime = declared(Time("When it was made.", example="2026-11-21T10:49:52.500Z"))
    error: str | None = declared(Text("Why its last cycle failed; only then."), default=None)


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
_OPTIONS = Json("By the provider's own schema.", floats=True)
_BESIDE = "each of them is a field of its own there"
_RAILS = Part(
    "Its own limits; each may stand beside it instead.",
    kind=Guardrails,
    left_out={"cli": _BESIDE, "dashboard": _BESIDE},
)
_BUDGET = Part("What its model may use.", kind=LlmBudget)
_GRANTS = GrantList("What it may do; `[]`: it only reads.", cli="--grant")


@resource
class NewAgent(Guardrails):
    """An agent that is to be made. Guardrails may stand at the top level or in `guardrails`."""

    name: str = declared(_NAME)
    wallet_id: str | None = declared(
        WalletId("The wallet it uses; without one it gets a new one.", most=100, cli="--wallet"),
        default=None,
    )
    llm_provider: str | None = declared(_PROVIDER, default=None)
    llm_model: str | None = declared(_MODEL, default=None)
    strategy: str | None = declared(_STRATEGY, default=None)
    loop_interval_ms: int = declared(_INTERVAL, default=60_000)
    llm_options: Mapping[str, Any] | None = declared(_OPTIONS, default=None)
    llm_budget: Mapping[str, Any] | None = declared(_BUDGET, default=None)
    guardrails: Mapping[str, Any] | None = declared(_RAILS, default=None)
    grants: Sequence[Any] | None = declared(_GRANTS, default=None)
    template: str | None = declared(
        Text("Gives what is left out; `solward agent templates` lists them."), default=None
    )


@resource
class AgentChange(Guardrails):
    """What is to change of an agent; what is left out stays."""

    name: str | None = declared(_NAME, default=None)
    llm_provider: str | None = declared(_PROVIDER, default=None)
    llm_model: str | None = declared(_MODEL, default=None)
    strategy: str | None = declared(_STRATEGY, default=None)
    loop_interval_ms: int | None = declared(_INTERVAL, default=None)
    llm_options: Mapping[str, Any] | None = declared(_OPTIONS, default=None)
    llm_budget: Mapping[str, Any] | None = declared(_BUDGET, default=None)
    guardrails: Mapping[str, Any] | None = declared(_RAILS, default=None)
    grants: Sequence[Any] | None = declared(
        replace(_GRANTS, left_out={"dashboard": "the page of the policy changes them"}),
        default=None,
    )


@resource
class Memory(Answer):
    """An agent's memory of one cycle."""

    cycle: int = declared(Whole("From 1.", least=1, most=2**53, example=9))
    reasoning: str = declared(
        Text(
            "The model's.",
            example="Matched rule: always do wait (rule-based demo, not a language model).",
        )
    )
    action: str | None = declared(
        Text("The skill with its parameters; null where none ran.", example="wait({})")
    )
    outcome: str = declared(Text("What came of it.", example="Waited: no action this cycle."))
    timestamp: datetime = declared(
        Time("When the cycle ended.", example="2026-11-21T10:34:50.412Z")
    )


@resource
class ModelUsage(Answer):
    """What a cycle's model used."""

    input_tokens: int = declared(Whole("Of the prompt.", most=2**53))
    output_tokens: int = declared(Whole("Of the answer.", most=2**53))
    cost_usd: Decimal | None = declared(Number("Estimated; null where the price is not known."))


@resource
class Decision(Memory):
    """One cycle of an agent."""

    agent_id: str = declared(Id("The agent.", example=examples.AGENT))
    observations: Mapping[str, Any] = declared(Shape("What it saw.", form=ref("Observation")))
    usage: Mapping[str, Any] | None = declared(
        Shape("What its model used.", form=answer_schema(ModelUsage)), default=None
    )


CREATE_AGENT = Call(
    "createAgent",
    "Make an agent, idle. Without a wallet and with `max_sol_per_transaction` it gets a new"
    " wallet, and the service's default provider and model may do; so with `template`.",
    "POST",
    "/agents",
    NewAgent,
    Agent,
    name="create",
    is_short=True,
)
CHANGE_AGENT = Call(
    "changeAgent",
    "Change the given fields; a running agent goes by them from its next cycle, by `grants` at"
    " once. A number of `llm_budget` that is None removes that limit.",
    "PATCH",
    "/agents/{agent_id}",
    AgentChange,
    Agent,
    name="change",
)
AGENT_CALLS = (CREATE_AGENT, CHANGE_AGENT)
