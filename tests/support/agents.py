"""Parts for cycles without a store or a ledger: what they did is kept in plain lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from solward.agents.agent import Agent, AgentGuardrails, AgentStatus, DesiredState
from solward.agents.cycle import CycleParts, CycleResult, EnteredCycle
from solward.agents.decisions import Decision
from solward.agents.model_budget import ModelBudget
from solward.agents.permissions import WITHOUT_GRANTS, Permissions
from solward.agents.store import agents as agent_store
from solward.agents.stored_reads import Stored
from solward.context import AgentView
from solward.service.service import Solward
from solward.solana.balances import Balances, TokenBalance
from solward.types.provider import Completion, CompletionRequest, ToolCall, ToolDefinition
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import ADMIN, Actor

SOL = 10**9
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
ADDRESS = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"

AGENT = Agent(
    id="a1",
    name="Ada",
    wallet_id="w1",
    llm_provider="scripted",
    llm_model="model-1",
    strategy="Keep half a SOL.",
    guardrails=AgentGuardrails(2 * SOL, 5, 10 * SOL),
    loop_interval_ms=60_000,
    status=AgentStatus.RUNNING,
    desired_state=DesiredState.RUNNING,
    created_ms=1_700_000_000_000,
    fence=1,
)
TOOLS = (ToolDefinition("transfer", "Send SOL.", {"type": "object"}),)


def agent_body(wallet: object, provider: str = "rules", **changes: Any) -> dict[str, Any]:
    """What `POST /agents` takes; one cycle an hour, so that only its first runs in a test."""
    return {
        "name": "Ada",
        "walletId": wallet,
        "llmProvider": provider,
        "llmModel": "rules" if provider == "rules" else "model-1",
        "strategy": "always do wait",
        "loopIntervalMs": 3_600_000,
    } | changes


async def hire(service: Solward, provider: str = "rules", **changes: Any) -> Agent:
    """A new agent, not started; its new wallet holds 2 SOL."""
    wallet = await service.wallets.create("agents")
    await service.operations.perform("airdrop", wallet.id, ADMIN, {"amount": 2})
    return await service.agents.create(agent_body(wallet.id, provider, **changes))


async def hire_running(service: Solward, provider: str = "rules", **changes: Any) -> Agent:
    """As `hire`, meant to run: what a stopped agent asks for is refused; no cycle is started."""
    agent = await hire(service, provider, **changes)
    async with service.database.write() as connection:
        await agent_store.update_agent(connection, agent.id, {"desired_state": "running"})
    return agent


@dataclass(frozen=True)
class Facts:
    name: str = "demo"
    address: str = ADDRESS


def record(**changes: Any) -> TransactionRecord:
    plain = TransactionRecord(
        id="t1",
        wallet_id="w1",
        type="transfer",
        status=TransactionStatus.CONFIRMED,
        details={"from": ADDRESS, "to": ADDRESS, "amount": Decimal("0.01")},
        guardrails_applied=("max_per_tx",),
        principal="admin",
        created_ms=1_700_000_000_000,
        signature="5sig",
    )
    return replace(plain, **changes)


@dataclass
class Notebook:
    """A journal in memory for one agent."""

    agent: Agent = AGENT
    entered: EnteredCycle | None = None
    decisions: list[Decision] = field(default_factory=list)
    results: list[CycleResult] = field(default_factory=list)
    goes_on: bool = True
    abandoned: list[int] = field(default_factory=list)

    async def enter(self, agent_id: str, cycle: int) -> EnteredCycle | None:
        return self.entered or EnteredCycle(self.agent, ())

    async def leave(self, decision: Decision, fence: int, result: CycleResult) -> bool:
        assert fence == (self.entered.agent if self.entered else self.agent).fence
        self.decisions.append(decision)
        self.results.append(result)
        return self.goes_on

    async def abandon(self, agent_id: str, fence: int) -> None:
        self.abandoned.append(fence)


@dataclass
class Skills:
    """Runs no skill: notes what was asked for and answers as told."""

    answer: Callable[[], Awaitable[str]]
    asked: list[tuple[str, Mapping[str, Any], str, Actor]] = field(default_factory=list)

    async def run(
        self,
        name: str,
        params: Mapping[str, Any],
        wallet_id: str,
        actor: Actor,
        agent: AgentView | None = None,
    ) -> str:
        self.asked.append((name, params, wallet_id, actor))
        return await self.answer()


async def done() -> str:
    return "Sent."


class Scripted:
    """A provider that gives prepared answers, and keeps what it was asked."""

    def __init__(self, *answers: Completion | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[CompletionRequest] = []

    async def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def calls(name: str, arguments: Any, text: str | None = "Because.") -> Completion:
    return Completion(text, (ToolCall(name, arguments),))


def parts(
    scripted: Scripted,
    notebook: Notebook | None = None,
    skills: Skills | None = None,
    **changes: Any,
) -> CycleParts:
    async def wallet(wallet_id: str) -> Facts:
        return Facts()

    async def balances(wallet_id: str, mark: Hashable) -> Balances:
        return Balances(1_500_000_000, (TokenBalance(USDC, 2_500_000, 6, "USDC"),))

    async def stored(agent: Agent) -> Stored:
        return Stored(recent=[record()])

    async def permissions(agent: Agent) -> Permissions:
        return WITHOUT_GRANTS

    ready = CycleParts(
        journal=notebook or Notebook(),
        wallet=wallet,
        balances=balances,
        stored=stored,
        permissions=permissions,
        tools=lambda: TOOLS,
        provider=lambda agent: scripted.complete,
        # Agents of these tests have no budget of which anything is reserved.
        budget=ModelBudget(None, None),  # type: ignore[arg-type]
        run_skill=(skills or Skills(done)).run,
        spends=lambda skill: skill == "transfer",
        network="localnet",
        clock=lambda: 1_700_000_001_000,
    )
    return replace(ready, **changes)
