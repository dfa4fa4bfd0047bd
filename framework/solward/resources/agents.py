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
"""Entries of an agent's memory that are kept."""
_MOST_TOKENS = 10**12

_MAX_SOL = Sol("SOL in one transaction.", title="Most SOL in a transaction", example=0.5)
_A_MINUTE = Whole(
    "Transactions in any 60 seconds.",
    least=1,
    most=1_000_000,
    title="Most transactions in a minute",
    example=5,
)
_DAILY_SOL = Sol("SOL in any 24 hours.", title="Most SOL in 24 hours", example=10)
_DAILY_COSTS = Sol(
    "SOL of fees and rent in any 24 hours; default the wallet's limit.",
    title="Most SOL of fees and rent in 24 hours",
    example=0.02,
)
_CYCLE_TOKENS = Whole(
    "Tokens of prompt and answer in a cycle.",
    least=1,
    most=_MOST_TOKENS,
    title="Most tokens in a cycle",
)
_DAY_TOKENS = Whole(
    "Tokens of prompt and answer in a day.",
    least=1,
    most=_MOST_TOKENS,
    title="Most tokens in a day",
)
_DAY_USD = Usd(
    "Estimated US dollars in a day; default 5.",
    most=10**6,
    title="Most US dollars of the model in a day",
)


class AgentStatus(StrEnum):
    """The status that callers see."""

    IDLE = "idle"
    """Created, never started."""
    RUNNING = "running"
    """Its cycles run."""
    PAUSED = "paused"
    """Paused by its owner; start resumes it."""
    STOPPED = "stopped"
    """Ended by stop; start runs it again."""
    ERROR = "error"
    """Its last three cycles failed; it keeps trying, ever more slowly, until stopped."""


@resource
class Guardrails(Request):
    """An agent's own limits; for a field that is left out the service's limit applies."""

    max_sol_per_transaction: Decimal | int | None = declared(_MAX_SOL, default=None)
    max_transactions_per_minute: int | None = declared(_A_MINUTE, default=None)
    daily_spending_limit_sol: Decimal | int | None = declared(_DAILY_SOL, default=None)
    max_costs_sol_per_day: Decimal | int | None = declared(_DAILY_COSTS, default=None)


@resource
class OwnGuardrails(Answer):
    """An agent's own limits, in an answer."""

    component: ClassVar = "Guardrails"

    max_sol_per_transaction: Decimal = declared(_MAX_SOL)
    max_transactions_per_minute: int = declared(_A_MINUTE)
    daily_spending_limit_sol: Decimal = declared(_DAILY_SOL)
    max_costs_sol_per_day: Decimal | None = declared(
        replace(_DAILY_COSTS, example=REQUIRED), default=None
    )


@resource
class LlmBudget(Request):
    """Limits on an agent's model; null is no limit."""

    max_tokens_per_cycle: int | None = declared(_CYCLE_TOKENS, default=None)
    max_tokens_per_day: int | None = declared(_DAY_TOKENS, default=None)
    max_usd_per_day: Decimal | int | None = declared(_DAY_USD, default=None)


@resource
class OwnBudget(Answer):
    """Limits on an agent's model; an absent field is no limit."""

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
    name: str = declared(Text("Its name.", example="saver"))
    wallet_id: str = declared(Id("The wallet it uses.", example=Example.WALLET))
    status: str = declared(
        Choice("See docs/how-to/agents.md.", options=tuple(map(str, AgentStatus)), example="idle")
    )
    llm_provider: str = declared(Text("The provider's name.", title="Provider", example="rules"))
    llm_model: str = declared(Text("The model's name.", title="Model", example="rules"))
    strategy: str = declared(Text("The agent's instructions.", example="always do wait"))
    loop_interval_ms: int = declared(
        Whole("Milliseconds between starts of cycles.", least=1_000, most=2**31 - 1, example=5_000)
    )
    guardrails: Mapping[str, Any] = declared(shape_of("Its own limits.", OwnGuardrails))
    llm_options: Mapping[str, Any] = declared(Json("Options by the provider's schema.", example={}))
    llm_budget: Mapping[str, Any] = declared(shape_of("Its model's limits.", OwnBudget))
    is_llm: bool = declared(Flag("False for the rule-based demo provider.", example=False))
    created_at: datetime = declared(Time("When it was made.", example="2026-11-21T10:49:52.500Z"))
    error: str | None = declared(Text("Why its last cycle failed, if it did."), default=None)


@resource
class CreatedAgent(Answer):
    """A new agent, with its main fields."""

    id: str = declared(Id("The agent.", example=Example.AGENT))
    name: str = declared(Text("As given.", example="saver"))
    status: str = declared(Choice("Not started yet.", options=(AgentStatus.IDLE.value,)))
    wallet_id: str = declared(Id("Its wallet.", example=Example.WALLET))


@resource
class SwitchedAgent(Answer):
    """The result of starting, stopping or pausing an agent."""

    status: str = declared(Choice("The action done.", options=("started", "stopped", "paused")))


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
_OPTIONS = Json("Options by the provider's schema.", floats=True)
_BESIDE = "each of them is a field of its own there"
_RAILS = Part(
    "The agent's own limits; each may be a field of the body instead.",
    kind=Guardrails,
    left_out={"cli": _BESIDE, "dashboard": _BESIDE},
)
_BUDGET = Part("Limits of what its model may use.", kind=LlmBudget)
_GRANTS = GrantList("Grants; with `[]` it only reads.", cli="--grant")


@resource
class NewAgent(Guardrails):
    """A request to create an agent. Guardrails are fields of the body or of `guardrails`."""

    name: str = declared(_NAME)
    wallet_id: str | None = declared(
        WalletId("The agent's wallet; default a new one.", most=100, cli="--wallet"),
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
        Loaded("Template for the fields left out; `solward agent templates` lists them."),
        default=None,
    )


@resource
class AgentChange(Guardrails):
    """A change of an agent; a field that is left out keeps its value."""

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
        replace(_GRANTS, left_out={"dashboard": "the page of the policy changes them"}),
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
        Text("The skill with its parameters; null if none ran.", example="wait({})")
    )
    outcome: str = declared(Text("The result.", example="Waited: no action this cycle."))
    timestamp: datetime = declared(
        Time("When the cycle ended.", example="2026-11-21T10:34:50.412Z")
    )


@resource
class ModelUsage(Answer):
    """The tokens that a cycle's model used, and their price."""

    input_tokens: int = declared(Whole("Tokens of the prompt.", most=2**53))
    output_tokens: int = declared(Whole("Tokens of the answer.", most=2**53))
    cost_usd: Decimal | None = declared(Number("Estimated dollars; null if not known."))


@resource
class TokenSeen(Answer):
    """A token that a wallet held."""

    mint: str = declared(Address("The mint."))
    symbol: str | None = declared(Text("The symbol, if known."), default=None)
    ui_balance: Decimal = declared(Amount("Whole tokens."))


@resource
class HeldSeen(Answer):
    """A transaction that waited for a person's decision."""

    id: str = declared(Id("The hold.", example=Example.HOLD))
    state: str = declared(Choice("The hold's state.", options=tuple(map(str, HoldState))))
    type: str = declared(Text("The transaction's type.", example="transfer"))
    sentence: str = declared(Text("The request, and why it was held."))
    expires_at: datetime = declared(Time("The end of the time to approve it."))


@resource
class Observed(Answer):
    """The state of its wallet that an agent observed in one cycle."""

    component: ClassVar = "Observed"

    wallet_name: str = declared(Text("The wallet's name.", example="docs"))
    wallet_address: str = declared(Address("The wallet's address.", example=Example.ADDRESS))
    sol_balance: Decimal = declared(Amount("SOL.", example=2.39794572))
    token_balances: tuple[TokenSeen, ...] = declared(Json("The tokens it held.", example=[]))
    recent_transactions: tuple[Mapping[str, Any], ...] = declared(
        Shape("The 5 newest records.", form=array({"type": "object"}, most=5), example=[])
    )
    held_transactions: tuple[HeldSeen, ...] = declared(
        Json("Transactions that wait for a person, if any."), default=()
    )
    cycle: int = declared(Whole("The cycle's number, from 1.", least=1, example=9))
    timestamp: datetime = declared(
        Time("When it was observed.", example="2026-11-21T10:34:50.401Z")
    )


@resource
class NotObserved(Answer):
    """The error that kept an agent from seeing its wallet."""

    component: ClassVar = "NotObserved"

    error: str = declared(Text("Why the wallet could not be observed."))
    cycle: int = declared(Whole("The cycle's number, from 1.", least=1))
    timestamp: datetime = declared(Time("When it was tried."))


@resource
class Decision(Memory):
    """One cycle of an agent."""

    component: ClassVar = "Decision"

    agent_id: str = declared(Id("The agent.", example=Example.AGENT))
    observations: Mapping[str, Any] = declared(
        Shape(
            "The agent's view of its wallet.",
            form={"oneOf": [answer_reference(Observed), answer_reference(NotObserved)]},
            example=answer_example(Observed),
        )
    )
    usage: Mapping[str, Any] | None = declared(
        Shape("The tokens its model used.", form=answer_schema(ModelUsage)), default=None
    )


@resource
class TokensUsed(Answer):
    """Tokens that an agent's model used in the last 24 full hours and the current one."""

    tokens: int = declared(Whole("Tokens of prompt and answer.", example=9530))
    usd: Decimal = declared(Amount("Their estimated price.", example=0.00161))
    unpriced_tokens: int = declared(Whole("Tokens without a known price.", example=0))


@resource
class AgentLimits(Limits):
    """An agent's own limits, and their use."""

    component: ClassVar = "AgentLimits"

    agent_id: str = declared(Id("The agent.", example=Example.AGENT))
    wallet_id: str = declared(Id("Its wallet.", example=Example.WALLET))
    budget: OwnBudget = declared(Json("Its model's limits."), named="model.budget")
    last_day: TokensUsed = declared(Json("Its model's use."), named="model.lastDay")


@resource
class ListedDecisions(Request):
    """A request for a page of an agent's decisions."""

    limit: int = declared(LIMIT, default=50)
    before: int | None = declared(
        Whole("A cycle: only older ones.", least=1, most=2**53), default=None
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
        Text(
            "The message to the agent.",
            most=20_000,
            example="What are you doing?",
        )
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


def _switch(name: str, does: str, about: str = "") -> Call[SwitchedAgent]:
    path = f"{_ONE}/{name}"
    return Call(f"{name}Agent", f"POST {path}", does, SwitchedAgent, about=about)


CREATE_AGENT = Call(
    "createAgent",
    "POST /agents",
    "Create an agent, without starting it.",
    Agent,
    body=NewAgent,
    short=CreatedAgent,
    about="With `template`, or with `maxSolPerTransaction` at the top level and no `walletId`, the"
    " agent gets a new wallet, and may get the default provider and model. The template's strategy,"
    " interval, guardrails and grants apply unless the body has its own.",
)


@resource
class AgentTemplate(Answer):
    """A template from which agents are created."""

    component: ClassVar = "AgentTemplate"

    name: str = declared(
        Text("As `POST /agents` takes it in `template`.", example="balance-reporter")
    )
    title: str = declared(Text("Its title for people.", example="Balance reporter"))
    summary: str = declared(Text("The task of such an agent."))
    strategy: str = declared(Text("The agent's instructions.", example="You report ..."))
    loop_interval_ms: int = declared(Whole("Milliseconds a cycle.", least=1000, example=3_600_000))
    guardrails: Mapping[str, Any] = declared(shape_of("Its limits.", OwnGuardrails))
    grants: tuple[Raw, ...] = declared(GrantList("Grants; without any the agent signs nothing."))
    sentences: tuple[str, ...] = declared(Texts("The grants in words.", each="A sentence."))
    can_leave: Mapping[str, Any] = declared(
        shape_of(
            "The most that this agent alone can move out of a wallet in any 24 hours.", CanLeave
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
START_AGENT = _switch(
    "start",
    "Start or resume an agent.",
    "One that was never started is `idle`: its first start needs the role `policy`.",
)
STOP_AGENT = _switch("stop", "Stop an agent, after finishing a payment in progress.")
PAUSE_AGENT = _switch("pause", "Pause a running agent.")
GET_AGENT_LIMITS: Call[Any] = Call(
    "getAgentLimits",
    f"GET {_ONE}/limits",
    "Get an agent's own limits, and how much of each is spent.",
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
    "Chat with a running agent; nothing is executed.",
    Reply,
    body=Said,
    name=None,
    about="With `Accept: text/event-stream` the answer is streamed.",
)
