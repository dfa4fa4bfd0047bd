"""Agents: their parts in memory, a process for them without a ledger, a scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert, select
from tests.support.plugins import Shelf

from solward.agents import store
from solward.agents import store as agent_store
from solward.agents.agent import Agent, Decision, DesiredState
from solward.agents.budget import ModelBudget
from solward.agents.cycle import CycleParts, RunCycle
from solward.agents.observe import WITHOUT_GRANTS, AgentSnapshot, Permissions
from solward.agents.placement import MakePlacement
from solward.agents.queue import QueuePlacement, Worker
from solward.agents.remember import CycleResult, EnteredCycle
from solward.agents.service import AgentService
from solward.context import AgentView
from solward.database.database import Database
from solward.database.tables import wallets
from solward.plugins.discovery import Candidate
from solward.plugins.load import ImportResult, import_in_process
from solward.plugins.parameters import Parameters
from solward.resources.agents import AgentStatus
from solward.service import service
from solward.service.service import Solward
from solward.solana.balances import Balances, TokenBalance
from solward.solana.token_list import TokenList
from solward.testing import ScriptedProvider
from solward.types.errors import WalletNotFound
from solward.types.events import Event
from solward.types.manifest import Problem
from solward.types.provider import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderSpec,
    ToolCall,
    ToolDefinition,
    Usage,
)
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.skill import Effects
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN, Actor

# Parts for cycles without a store or a ledger: what they did is kept in plain lists.

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
    guardrails=ScopeLimits(2 * SOL, 5, 10 * SOL),
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


def record_of(**changes: Any) -> TransactionRecord:
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

    async def stored(agent: Agent) -> AgentSnapshot:
        return AgentSnapshot(recent=[record_of()])

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


# A process for agents without a ledger: a real store, a provider and a skill as a test says.

OPTIONS = {
    "type": "object",
    "properties": {"effort": {"type": "string"}},
    "additionalProperties": False,
}
BODY = agent_body("w1", "scripted", strategy="Whatever the script says.")


class Host:
    """A process with a real store; its provider and its one skill do as the test says."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.network = "localnet"
        self.settings = SimpleNamespace(
            max_lamports_per_transaction=2 * 10**9,
            max_transactions_per_minute=5,
            daily_spending_limit_lamports=10 * 10**9,
            default_llm_provider="scripted",
            default_llm_model="model-2",
            provider_context=lambda spec: self.lent,
            configured=lambda spec: (
                spec.secret_env is None
                or self.lent.secret is not None
                or self.lent.base_url is not None
            ),
        )
        self.lent = ProviderContext("key")
        self.policies = None
        self.published: list[tuple[str, Any]] = []
        database.on_committed = self._tell
        self.wallets = SimpleNamespace(get=self._wallet, create=self._create_wallet)
        self.requests: list[CompletionRequest] = []
        self.asked: list[tuple[dict[str, Any], ProviderContext]] = []
        self.answer: Callable[[], Any] = lambda: Completion("Waiting.")
        self.price: ModelPrice | Exception | None = None
        self.pay: Callable[[], Any] = lambda: "Paid."
        self.paid: list[str | None] = []
        self.decided = asyncio.Semaphore(0)
        provider = SimpleNamespace(
            spec=ProviderSpec("scripted", "model-1", {"type": "object"}, "SCRIPTED_KEY"),
            complete=self._complete,
            stream=self._stream,
            price=self._price,
            options=Parameters(OPTIONS),
        )
        self.tokens = TokenList(())
        self.registry = SimpleNamespace(
            providers={"scripted": provider},
            skills={"pay": SimpleNamespace(spec=SimpleNamespace(effects=Effects.SPEND))},
            tools=lambda: (),
        )

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self.published.append((event.event, event.data))
            if event.event == "agent:decision":
                self.decided.release()

    async def _price(self, model: str, options: Any) -> ModelPrice | None:
        if isinstance(self.price, Exception):
            raise self.price
        return self.price

    def think_for_ever(self) -> asyncio.Event:
        """Let the provider never answer; the event is set once it is called."""
        thinking = asyncio.Event()

        async def think() -> Completion:
            thinking.set()
            await asyncio.Event().wait()
            raise AssertionError

        self.answer = think
        return thinking

    async def decisions(self, number: int) -> None:
        """Wait until `number` more cycles have been remembered."""
        async with asyncio.timeout(10):
            for _ in range(number):
                await self.decided.acquire()

    async def _wallet(self, wallet_id: str) -> Any:
        async with self.database.read() as connection:
            row = (
                await connection.execute(select(wallets).where(wallets.c.id == wallet_id))
            ).first()
        if row is None:
            raise WalletNotFound
        return SimpleNamespace(id=row.id, name=row.name, address=row.public_key)

    async def _create_wallet(self, name: str) -> Any:
        await agents_wallet(self.database, f"id-of-{name}", name, f"{ADDRESS}{name}")
        return await self._wallet(f"id-of-{name}")

    async def _stream(self, *asked: Any, **lent: Any) -> AsyncIterator[str | Usage]:
        completion = await self._complete(*asked, **lent)
        for word in (completion.text or "").split():
            yield word
        if completion.usage is not None:
            yield completion.usage

    async def _complete(
        self, request: CompletionRequest, options: Any, context: ProviderContext
    ) -> Completion:
        self.requests.append(request)
        self.asked.append((dict(options), context))
        answer = self.answer()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def balances(self, wallet_id: str, mark: Hashable) -> Balances:
        return Balances(10**9, ())

    async def run_skill(
        self,
        name: str,
        params: Mapping[str, Any],
        wallet_id: str,
        actor: Actor,
        agent: AgentView | None = None,
    ) -> str:
        self.paid.append(actor.action_key)
        outcome = self.pay()
        return str(await outcome if asyncio.iscoroutine(outcome) else outcome)


def agents_of(host: Any, place: MakePlacement | None = None) -> AgentService:
    """The agents of a process."""
    return AgentService(
        settings=host.settings,
        network=host.network,
        database=host.database,
        wallets=host.wallets,
        tokens=host.tokens,
        policies=host.policies,
        registry=lambda: host.registry,
        ceilings=ScopeLimits(
            host.settings.max_lamports_per_transaction,
            host.settings.max_transactions_per_minute,
            host.settings.daily_spending_limit_lamports,
        ),
        balances=host.balances,
        run_skill=host.run_skill,
        place=place,
    )


async def agents_wallet(
    database: Database, wallet_id: str = "w1", name: str = "demo", address: str = ADDRESS
) -> None:
    """A wallet's row; without its id that of the wallet `BODY` names."""
    async with database.write() as connection:
        await connection.execute(
            insert(wallets).values(
                id=wallet_id, name=name, public_key=address, tags=[], created_ms=0, kek_version=1,
                wrapped_data_key=b"", sealed_key=b"",
            )
        )  # fmt: skip


# A placement on workers with the worker in the same process, for tests that open one service.


class WorkerBeside:
    """Cycles go through the real queue; a worker of this process runs them once there are any."""

    def __init__(self, database: Database, run: RunCycle) -> None:
        self._database, self._run = database, run
        self._queue = QueuePlacement(database)
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See `Placement`."""
        await self._queue.open()
        async with self._database.read() as connection:
            if await store.agents_to_run(connection):
                self._work()

    async def begin(self, agent_id: str, cycle: int, due_ms: int) -> None:
        """See `Placement`."""
        self._work()
        await self._queue.begin(agent_id, cycle, due_ms)

    async def halt(self, agent_id: str) -> None:
        """See `Placement`."""
        await self._queue.halt(agent_id)

    async def close(self) -> None:
        """End the worker too; the cycles it is in are cut off soon."""
        if self._worker is not None and self._working is not None:
            self._worker.stop()
            await self._working
        await self._queue.close()

    def _work(self) -> None:
        if self._worker is None:
            self._worker = Worker(self._database, self._run, concurrency=50, grace_s=0.1)
            # As in a process of its own, it has nothing to do with whoever starts an agent.
            self._working = asyncio.create_task(self._worker.run(), context=contextvars.Context())


# A model that says what a test tells it to, as an installed third-party provider plugin.

MODELS: dict[str, ScriptedProvider] = {}
_numbers = itertools.count(1)

_SOURCE = """
from contextlib import aclosing

from solward import ProviderSpec, hookimpl
from tests.support.agents import MODELS

MODEL = MODELS[{key!r}]


@hookimpl
def provider_spec():
    options = {{"type": "object", "properties": {{}}, "additionalProperties": False}}
    return ProviderSpec("scripted", "model-1", options, secret_env="XAI_API_KEY")


@hookimpl
async def provider_complete(request, options, context):
    return await MODEL.complete(request, context)


@hookimpl
async def provider_stream(request, options, context):
    async with aclosing(MODEL.stream(request, context)) as pieces:
        async for piece in pieces:
            yield piece
"""


class _InThisProcess:
    """A `PluginSource` without hosts."""

    on_problem: Callable[[Problem], object]

    async def import_candidates(self, candidates: Sequence[Candidate]) -> list[ImportResult]:
        return import_in_process(candidates)

    def faults(self) -> list[Problem]:
        return []


@contextlib.asynccontextmanager
async def _in_this_process(*_: object, **__: object) -> AsyncIterator[_InThisProcess]:
    yield _InThisProcess()


@contextlib.contextmanager
def scripted_model(folder: Path) -> Iterator[tuple[Shelf, ScriptedProvider]]:
    """The provider `scripted` on a shelf of its own, where more plugins can be put; meanwhile
    services run third parties' plugins in this process."""
    folder.mkdir(parents=True)
    key, model, shelf = str(next(_numbers)), ScriptedProvider(), Shelf(folder)
    MODELS[key] = model
    sys.path.insert(0, str(folder))
    try:
        source = _SOURCE.format(key=key)
        shelf.install("scripted-model", {"scripted": source}, group="solward.providers")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service, "plugin_hosts", _in_this_process)
            yield shelf, model
    finally:
        sys.path.remove(str(folder))
        del MODELS[key]
        for module in shelf.modules:
            sys.modules.pop(module, None)
