"""Agents, their memory and decisions, and the requests that make and change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Final

from solward.resources.declare import (
    Answer,
    Call,
    Part,
    Raw,
    Request,
    answer_example,
    answer_reference,
    answer_schema,
    declared,
    resource,
    shape_of,
)
from solward.resources.fields import (
    REQUIRED,
    Address,
    Amount,
    Choice,
    Flag,
    GrantList,
    Id,
    Json,
    Loaded,
    Number,
    Shape,
    Sol,
    Text,
    Texts,
    Time,
    Usd,
    WalletId,
    Whole,
    Words,
)
from solward.resources.schema import array
from solward.resources.shared import LIMIT, CanLeave, Deleted, Example, Limits
from solward.types.record import HoldState

MEMORY_KEPT: Final = 100
"""The number of newest entries that an agent's memory keeps."""
_MOST_TOKENS = 10**12

MAX_SOL = Sol("Maximum SOL in one transaction.", title="Most SOL in a transaction", example=0.5)
A_MINUTE = Whole(
    "Maximum transactions in any 60 seconds.",
    least=1,
    most=1_000_000,
    title="Most transactions in a minute",
    example=5,
)
DAILY_SOL = Sol("Maximum SOL in any 24 hours.", title="Most SOL in 24 hours", example=10)
DAILY_COSTS = Sol(
    "Maximum SOL for fees and rent in any 24 hours; default the wallet's limit.",
    title="Most SOL of fees and rent in 24 hours",
    example=0.02,
)
_CYCLE_TOKENS = Whole(
    "Maximum tokens of prompt and answer in one cycle.",
    least=1,
    most=_MOST_TOKENS,
    title="Most tokens in a cycle",
)
_DAY_TOKENS = Whole(
    "Maximum tokens of prompt and answer in a day.",
    least=1,
    most=_MOST_TOKENS,
    title="Most tokens in a day",
)
_DAY_USD = Usd(
    "Maximum estimated US dollars for the model in a day; default 5.",
    most=10**6,
    title="Most US dollars of the model in a day",
)


class AgentStatus(StrEnum):
    """The status that callers see."""

    IDLE = "idle"
    """Created, never started."""
    RUNNING = "running"
    """The agent runs a cycle at each interval."""
    PAUSED = "paused"
    """Paused by its owner. `start` resumes the agent."""
    STOPPED = "stopped"
    """Stopped by `stop`. `start` runs the agent again."""
    ERROR = "error"
    """The last three cycles failed. The agent retries, ever more slowly, until it is stopped."""


@resource
class Guardrails(Request):
    """An agent's own limits. For each absent field the service's limit applies."""

    max_sol_per_transaction: Decimal | int | None = declared(MAX_SOL, default=None)
    max_transactions_per_minute: int | None = declared(A_MINUTE, default=None)
    daily_spending_limit_sol: Decimal | int | None = declared(DAILY_SOL, default=None)
    max_costs_sol_per_day: Decimal | int | None = declared(DAILY_COSTS, default=None)


@resource
class OwnGuardrails(Answer):
    """An agent's own limits, as the API returns them."""

    component: ClassVar = "Guardrails"

    max_sol_per_transaction: Decimal = declared(MAX_SOL)
    max_transactions_per_minute: int = declared(A_MINUTE)
    daily_spending_limit_sol: Decimal = declared(DAILY_SOL)
    max_costs_sol_per_day: Decimal | None = declared(
        replace(DAILY_COSTS, example=REQUIRED), default=None
    )


@resource
class LlmBudget(Request):
    """Limits on an agent's use of its model. Null means no limit."""

    max_tokens_per_cycle: int | None = declared(_CYCLE_TOKENS, default=None)
    max_tokens_per_day: int | None = declared(_DAY_TOKENS, default=None)
    max_usd_per_day: Decimal | int | None = declared(_DAY_USD, default=None)


@resource
class OwnBudget(Answer):
    """Limits on an agent's use of its model. An absent field means no limit."""

    component: ClassVar = "LlmBudget"

    max_tokens_per_cycle: int | None = declared(_CYCLE_TOKENS, default=None)
    max_tokens_per_day: int | None = declared(_DAY_TOKENS, default=None)
    max_usd_per_day: Decimal | None = declared(replace(_DAY_USD, example=5), default=None)


@resource
class Agent(Answer):
    """An agent.

    Attributes:
        guardrails: its own limits, in SOL.
    """

    component: ClassVar = "Agent"

    id: str = declared(Id("The agent.", example=Example.AGENT))
    name: str = declared(Text("The agent's name.", example="saver"))
    wallet_id: str = declared(Id("The wallet that the agent uses.", example=Example.WALLET))
    status: str = declared(
        Choice("State; see docs/how-to/agents.md.", options=tuple(AgentStatus), example="idle")
    )
    llm_provider: str = declared(Text("The provider's name.", title="Provider", example="rules"))
    llm_model: str = declared(Text("The model's name.", title="Model", example="rules"))
    strategy: str = declared(Text("The agent's instructions.", example="always do wait"))
    loop_interval_ms: int = declared(
        Whole("Milliseconds between starts of cycles.", least=1_000, most=2**31 - 1, example=5_000)
    )
    guardrails: Mapping[str, Any] = declared(shape_of("The agent's own limits.", OwnGuardrails))
    llm_options: Mapping[str, Any] = declared(Json("The provider's own options.", example={}))
    llm_budget: Mapping[str, Any] = declared(shape_of("Limits on the model's use.", OwnBudget))
    is_llm: bool = declared(Flag("False for the rule-based demo provider.", example=False))
    created_at: datetime = declared(Time("Time of creation.", example="2026-11-21T10:49:52.500Z"))
    error: str | None = declared(Text("Why the last cycle failed, if it failed."), default=None)


@resource
class CreatedAgent(Answer):
    """A new agent, with its main fields."""

    id: str = declared(Id("The agent.", example=Example.AGENT))
    name: str = declared(Text("The agent's name.", example="saver"))
    status: str = declared(Choice("The agent has not started.", options=(AgentStatus.IDLE.value,)))
    wallet_id: str = declared(Id("The agent's wallet.", example=Example.WALLET))


@resource
class SwitchedAgent(Answer):
    """The result of starting, stopping or pausing an agent."""

    status: str = declared(Choice("What was done.", options=("started", "stopped", "paused")))


_NAME = Words(
    "Name of the agent.", most=100, printable=True, missing="name is required", example="saver"
)
_PROVIDER = Loaded("Name of a loaded provider.", most=100)
_MODEL = Words("Name of the provider's model.", printable=True)
_STRATEGY = Words("The agent's instructions.", most=20_000, example="always do wait")
_INTERVAL = Whole(
    "Milliseconds from the start of a cycle to the next.",
    # The maximum is about 24.8 days, the longest timer of 32 bits.
    least=1_000,
    most=2**31 - 1,
    example=5_000,
)
_OPTIONS = Json("Options that the provider's schema defines.", floats=True)
_BESIDE = "each of these limits is a field of its own there"
_RAILS = Part(
    "The agent's own limits, which may also be fields of the body.",
    kind=Guardrails,
    left_out={"cli": _BESIDE, "dashboard": _BESIDE},
)
_BUDGET = Part("Limits on the model's use.", kind=LlmBudget)
_GRANTS = GrantList("Grants of the agent; with `[]` it can only read.", cli="--grant")


@resource
class NewAgent(Guardrails):
    """A request to create an agent. Guardrails are fields of the body or of `guardrails`."""

    name: str = declared(_NAME)
    wallet_id: str | None = declared(
        WalletId("The agent's wallet; default a new wallet.", most=100, cli="--wallet"),
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
        Loaded("Template for absent fields; `solward agent templates` lists templates."),
        default=None,
    )


@resource
class AgentChange(Guardrails):
    """A request to change an agent. An absent field keeps its value."""

    never_null: ClassVar = ("name", "llm_provider", "llm_model", "strategy")

    name: str | None = declared(_NAME, default=None)
    llm_provider: str | None = declared(_PROVIDER, default=None)
    llm_model: str | None = declared(_MODEL, default=None)
    strategy: str | None = declared(_STRATEGY, default=None)
    loop_interval_ms: int | None = declared(_INTERVAL, default=None)
    llm_options: Mapping[str, Any] | None = declared(_OPTIONS, default=None)
    llm_budget: Mapping[str, Any] | None = declared(_BUDGET, default=None)
    guardrails: Mapping[str, Any] | None = declared(_RAILS, default=None)
    grants: Sequence[Any] | None = declared(
        replace(_GRANTS, left_out={"dashboard": "the policy page changes an agent's grants"}),
        default=None,
    )


@resource
class Memory(Answer):
    """The entry for one cycle in an agent's memory."""

    component: ClassVar = "MemoryEntry"

    cycle: int = declared(Whole("The cycle's number, from 1.", least=1, most=2**53, example=9))
    reasoning: str = declared(
        Text(
            "The model's reasoning.",
            example="Matched rule: always do wait (rule-based demo, not a language model).",
        )
    )
    action: str | None = declared(
        Text("The skill that ran, with its parameters; null if no skill ran.", example="wait({})")
    )
    outcome: str = declared(Text("The result.", example="Waited: no action this cycle."))
    timestamp: datetime = declared(
        Time("When the cycle ended.", example="2026-11-21T10:34:50.412Z")
    )


@resource
class ModelUsage(Answer):
    """The tokens that a cycle's model used, and their price."""

    input_tokens: int = declared(Whole("Tokens in the prompt.", most=2**53))
    output_tokens: int = declared(Whole("Tokens in the answer.", most=2**53))
    cost_usd: Decimal | None = declared(Number("Estimated US dollars; null if unknown."))


@resource
class TokenSeen(Answer):
    """A token that a wallet held."""

    mint: str = declared(Address("The token's mint."))
    symbol: str | None = declared(Text("The token's symbol, if known."), default=None)
    ui_balance: Decimal = declared(Amount("Balance in whole tokens."))


@resource
class HeldSeen(Answer):
    """A transaction that waited for a person's decision."""

    id: str = declared(Id("The hold.", example=Example.HOLD))
    state: str = declared(Choice("The hold's state.", options=tuple(map(str, HoldState))))
    type: str = declared(Text("The transaction's type.", example="transfer"))
    sentence: str = declared(Text("The request, and the reason for the hold."))
    expires_at: datetime = declared(Time("When the hold expires if nobody decides."))


@resource
class Observed(Answer):
    """An agent's wallet, as the agent observed it in one cycle."""

    component: ClassVar = "Observed"

    wallet_name: str = declared(Text("The wallet's name.", example="docs"))
    wallet_address: str = declared(Address("The wallet's address.", example=Example.ADDRESS))
    sol_balance: Decimal = declared(Amount("The wallet's SOL.", example=2.39794572))
    token_balances: tuple[TokenSeen, ...] = declared(Json("The wallet's tokens.", example=[]))
    recent_transactions: tuple[Mapping[str, Any], ...] = declared(
        Shape("The wallet's 5 newest records.", form=array({"type": "object"}, most=5), example=[])
    )
    held_transactions: tuple[HeldSeen, ...] = declared(
        Json("Transactions that wait for a person's decision, if any."), default=()
    )
    cycle: int = declared(Whole("The cycle's number, from 1.", least=1, example=9))
    timestamp: datetime = declared(
        Time("When the wallet was observed.", example="2026-11-21T10:34:50.401Z")
    )


@resource
class NotObserved(Answer):
    """The error that prevented an agent from observing its wallet."""

    component: ClassVar = "NotObserved"

    error: str = declared(Text("Why the wallet could not be observed."))
    cycle: int = declared(Whole("The cycle's number, from 1.", least=1))
    timestamp: datetime = declared(Time("When the agent tried to observe it."))


@resource
class Decision(Memory):
    """One cycle of an agent."""

    component: ClassVar = "Decision"

    agent_id: str = declared(Id("The agent.", example=Example.AGENT))
    observations: Mapping[str, Any] = declared(
        Shape(
            "The wallet as the agent observed it, or why that failed.",
            form={"oneOf": [answer_reference(Observed), answer_reference(NotObserved)]},
            example=answer_example(Observed),
        )
    )
    usage: Mapping[str, Any] | None = declared(
        Shape("The tokens that the model used.", form=answer_schema(ModelUsage)), default=None
    )


@resource
class TokensUsed(Answer):
    """Tokens that an agent's model used in the last 24 full hours and in the current hour."""

    tokens: int = declared(Whole("Tokens of prompts and answers.", example=9530))
    usd: Decimal = declared(Amount("The tokens' estimated price.", example=0.00161))
    unpriced_tokens: int = declared(Whole("Tokens without a known price.", example=0))


@resource
class AgentLimits(Limits):
    """An agent's own limits, and their use."""

    component: ClassVar = "AgentLimits"

    agent_id: str = declared(Id("The agent.", example=Example.AGENT))
    wallet_id: str = declared(Id("The agent's wallet.", example=Example.WALLET))
    budget: OwnBudget = declared(Json("Limits on the model's use."), named="model.budget")
    last_day: TokensUsed = declared(Json("The model's use in a day."), named="model.lastDay")


@resource
class ListedDecisions(Request):
    """A request for a page of an agent's decisions."""

    limit: int = declared(LIMIT, default=50)
    before: int | None = declared(
        Whole("Only cycles before this number.", least=1, most=2**53), default=None
    )


@resource
class ListedMemory(Request):
    """A request for an agent's memory."""

    limit: int = declared(
        Whole("Maximum number of entries.", least=1, most=MEMORY_KEPT), default=MEMORY_KEPT
    )


@resource
class Said(Request):
    """A message to an agent."""

    message: str = declared(
        Text("The message to the agent.", most=20_000, example="What are you doing?")
    )


@resource
class Reply(Answer):
    """An agent's reply."""

    response: str = declared(
        Text(
            "The model's reply.",
            example="I am a rule-based demo, not a language model. My rules are:\nalways do wait",
        )
    )


_ONE = "/agents/{agent_id}"


def _switch_call(name: str, does: str, about: str = "") -> Call[SwitchedAgent]:
    path = f"{_ONE}/{name}"
    return Call(f"{name}Agent", f"POST {path}", does, SwitchedAgent, about=about)


CREATE_AGENT = Call(
    "createAgent",
    "POST /agents",
    "Create an agent without starting it.",
    Agent,
    body=NewAgent,
    short=CreatedAgent,
    about="With `template`, or with `maxSolPerTransaction` at the top level and no `walletId`, the"
    " agent gets a new wallet, and provider and model are optional. The template's strategy,"
    " interval, guardrails and grants apply unless the body has its own.",
)


@resource
class AgentTemplate(Answer):
    """A template from which agents are created."""

    component: ClassVar = "AgentTemplate"

    name: str = declared(
        Text("The template's name, for `template` of `POST /agents`.", example="balance-reporter")
    )
    title: str = declared(Text("The template's title for people.", example="Balance reporter"))
    summary: str = declared(Text("The task of an agent with this template."))
    strategy: str = declared(Text("The agent's instructions.", example="You report ..."))
    loop_interval_ms: int = declared(Whole("Milliseconds a cycle.", least=1000, example=3_600_000))
    guardrails: Mapping[str, Any] = declared(shape_of("The agent's limits.", OwnGuardrails))
    grants: tuple[Raw, ...] = declared(GrantList("Grants; if empty, the agent can only read."))
    sentences: tuple[str, ...] = declared(Texts("The grants in words.", each="A sentence."))
    can_leave: Mapping[str, Any] = declared(
        shape_of(
            "The maximum that this agent alone can move out of a wallet in any 24 hours.", CanLeave
        )
    )


LIST_AGENT_TEMPLATES = Call(
    "listAgentTemplates",
    "GET /agent-templates",
    "List agent templates.",
    AgentTemplate,
    name="templates",
    listed="templates",
)
LIST_AGENTS = Call("listAgents", "GET /agents", "List agents.", Agent, listed="agents")
GET_AGENT = Call("getAgent", f"GET {_ONE}", "Get an agent.", Agent)
CHANGE_AGENT = Call(
    "changeAgent",
    f"PATCH {_ONE}",
    "Change an agent, from its next cycle on.",
    Agent,
    body=AgentChange,
    about="New `grants` apply at once. A null in `llmBudget` removes that limit.",
)
DELETE_AGENT = Call(
    "deleteAgent",
    f"DELETE {_ONE}",
    "Delete an agent with its decisions and memory, but not its transactions.",
    Deleted,
)
START_AGENT = _switch_call(
    "start",
    "Start or resume an agent.",
    "The first start of an `idle` agent, one that never ran, needs the role `policy`.",
)
STOP_AGENT = _switch_call("stop", "Stop an agent, after finishing a payment in progress.")
PAUSE_AGENT = _switch_call("pause", "Pause a running agent.")
GET_AGENT_LIMITS: Call[Any] = Call(
    "getAgentLimits",
    f"GET {_ONE}/limits",
    "Get an agent's own limits, and their use.",
    AgentLimits,
    name="limits",
    is_raw=True,
)
LIST_DECISIONS = Call(
    "listDecisions",
    f"GET {_ONE}/decisions",
    "List an agent's decisions, newest first.",
    Decision,
    query=ListedDecisions,
    name="decisions",
    listed="decisions",
)
LIST_MEMORY = Call(
    "listMemory",
    f"GET {_ONE}/memory",
    "List an agent's memory, newest first.",
    Memory,
    query=ListedMemory,
    name="memory",
    listed="memory",
)
CHAT = Call(
    "chat",
    f"POST {_ONE}/chat",
    "Chat with a running agent, without executing anything.",
    Reply,
    body=Said,
    name=None,
    about="With `Accept: text/event-stream` the answer is streamed.",
)
