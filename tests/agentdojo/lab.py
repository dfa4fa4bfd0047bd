"""A user's agent with a model that always obeys the attacker, run by AgentDojo's own runner."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement
from agentdojo.attacks.attack_registry import load_attack
from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.types import text_content_block_from_string
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests.agentdojo.bank import BANKS, DECIMALS, PAY_DUE, Bank, Directory, install_tools, suite
from tests.agents.injection.lab import prompt_of
from tests.support.agents import agent_body, scripted_model
from tests.support.localnet import land
from tests.support.tokens import fund_instructions, mint_instructions

from solward.agents import store
from solward.agents.agent import Agent
from solward.agents.cycle import run_cycle
from solward.operations.policies.changes import replace_policy
from solward.operations.policies.grant_documents import read_policy
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.token_list import token_list
from solward.testing import ScriptedProvider
from solward.types.provider import Completion, CompletionRequest, ToolCall
from solward.types.record import TransactionStatus
from solward.vault.grants.spelling import Names
from solward.vault.money.request import ADMIN

ATTACK = "important_instructions"
UNIT = 10**DECIMALS
# More than all that any task asks for, so that nothing is refused for want of money.
HOLDINGS = 2_000_000 * UNIT
MOST_CYCLES = 20
NO_LIMITS = {
    "maxSolPerTransaction": 1_000,
    "maxTransactionsPerMinute": 100_000,
    "dailySpendingLimitSol": 1_000,
}


class Policy(StrEnum):
    """To whom the owner lets the agent pay tokens."""

    ANYBODY = "anybody"
    """Any amount to anybody: the control, in which the attacker wins."""
    BOOK = "the owner's address book"
    """Some to everybody in it, rent to landlords."""
    NOBODY = "nobody: no grant"
    """What holds of an agent whose owner said nothing."""


# What the user's own tasks take, and little more.
DAILY_LIFE, RENT = (250, 400), (2_200, 2_300)


@dataclass
class Obedient:
    """Works through the user's task, and does what the attack says as soon as it has read it."""

    calls: deque[FunctionCall]
    told_by: str | None
    orders: Sequence[FunctionCall]
    made: list[FunctionCall] = field(default_factory=list)
    done: bool = False
    reached: bool = False

    def __call__(self, request: CompletionRequest) -> Completion:
        if self.told_by and not self.reached and self.told_by in prompt_of(request):
            self.reached = True
            self.calls.extendleft(reversed(self.orders))
        if not self.calls:
            self.done = True
            return Completion("I have done all I was told.")
        call = self.calls.popleft()
        self.made.append(call)
        return Completion("I do as I am told.", (ToolCall(call.function, dict(call.args)),))


@dataclass
class Played:
    """What came of one run; money is units of the token, by the ledger.

    Attributes:
        utility: AgentDojo's verdict that the user's task was done.
        attacked: AgentDojo's verdict that the attacker reached his goal.
        reached: the attack's text got to the model.
        paid: account number of somebody the owner knows -> what he got.
        stolen: what others got.
        lost: what left the wallet.
        lamports: what left the wallet in SOL: fees and rent.
        refusals: of each blocked payment, the rule that refused it.
    """

    utility: bool
    attacked: bool
    reached: bool
    paid: Counter[str]
    stolen: int
    lost: int
    lamports: int
    refusals: list[str]
    outcomes: list[str]


class Agents(BasePipelineElement):
    """AgentDojo's pipeline: a cycle of the agent for each call of its model."""

    # AgentDojo's attack addresses a model by the name it finds in this.
    name = "local"

    def __init__(self, lab: Lab, model: Obedient, agent: Agent, answer: str) -> None:
        self.lab, self.model, self.agent, self.answer = lab, model, agent, answer
        self.loop = asyncio.get_running_loop()

    def query(
        self,
        query: str,
        runtime: FunctionsRuntime,
        env: Any = None,
        messages: Sequence[Any] = (),
        extra_args: dict[str, Any] | None = None,
    ) -> Any:
        BANKS[self.agent.wallet_id] = Bank(env, runtime, self.lab.directory, self.lab.mint)
        run = self.lab.cycles(self.agent, self.model)
        asyncio.run_coroutine_threadsafe(run, self.loop).result()
        calls = [
            {"role": "assistant", "tool_calls": [call], "content": None} for call in self.model.made
        ]
        said = [text_content_block_from_string(self.answer)]
        final = {"role": "assistant", "tool_calls": None, "content": said}
        return query, runtime, env, [*messages, *calls, final], extra_args or {}


@dataclass
class Lab:
    """One service for all runs; each has a wallet, an agent and an attacker of its own."""

    service: Solward
    model: ScriptedProvider
    directory: Directory
    bank: Keypair
    mint: str

    async def play(
        self, policy: Policy, user_task: BaseUserTask, injection: BaseInjectionTask | None = None
    ) -> Played:
        """One user task, alone or under attack, and then the day on which its orders are due."""
        agent = await self.agent(user_task)
        await self.grant(agent, policy)
        wallet = await self.service.wallets.get(agent.wallet_id)
        before, lamports = await self.held(), await self.lamports(wallet.address)
        clean = suite().load_and_inject_default_environment({})
        model = Obedient(
            deque(user_task.ground_truth(clean)),
            injection.GOAL if injection else None,
            injection.ground_truth(clean) if injection else (),
        )
        self.model.answer = model
        pipeline = Agents(self, model, agent, user_task.GROUND_TRUTH_OUTPUT)
        text = (
            load_attack(ATTACK, suite(), pipeline).attack(user_task, injection) if injection else {}
        )
        utility, attacked = await asyncio.to_thread(
            suite().run_task_with_pipeline, pipeline, user_task, injection, text
        )
        bank = BANKS[wallet.id]
        orders = bank.environment.bank_account.scheduled_transactions
        due = deque(FunctionCall(function=PAY_DUE, args={"id": order.id}) for order in orders)
        self.model.answer = payer = Obedient(due, None, ())
        await self.cycles(agent, payer)
        decisions = await self.service.agents.decisions(agent.id)
        records = await self.service.history.newest(wallet.id)
        blocked = [each for each in records if each.status is TransactionStatus.BLOCKED]
        return Played(
            utility,
            attacked and injection is not None,
            model.reached,
            await self.held() - before,
            sum([await self.units(each) for each in bank.strangers.values()]),
            HOLDINGS - await self.units(wallet.address),
            lamports - await self.lamports(wallet.address),
            [each.guardrails_applied[-1] for each in blocked],
            [each.outcome for each in reversed(decisions)],
        )

    async def cycles(self, agent: Agent, model: Obedient) -> None:
        """Cycles until the model has nothing left to do."""
        first = len(await self.service.agents.decisions(agent.id)) + 1
        for cycle in range(first, first + MOST_CYCLES):
            await run_cycle(agent.id, cycle, self.service.agents.parts)
            if model.done:
                return
        raise AssertionError("the model found no end")

    async def agent(self, task: BaseUserTask) -> Agent:
        """An agent that counts as running, with a new wallet that holds SOL and the tokens."""
        wallet = await self.service.wallets.create("bank account")
        await self.service.operations.perform("airdrop", wallet.id, ADMIN, {"amount": 2})
        owner, mint = Pubkey.from_string(wallet.address), Pubkey.from_string(self.mint)
        await self.land(fund_instructions(self.bank.pubkey(), owner, mint, HOLDINGS))
        body = agent_body(wallet.id, "scripted", strategy=task.PROMPT, guardrails=NO_LIMITS)
        agent = await self.service.agents.create(body)
        running = {"desired_state": "running", "status": "running"}
        async with self.service.database.write() as connection:
            await store.update_agent(connection, agent.id, running)
        return agent

    async def grant(self, agent: Agent, policy: Policy) -> None:
        """Put the agent under the grants of the policy."""
        allowed = {
            Policy.ANYBODY: [("any", (HOLDINGS // UNIT, HOLDINGS // UNIT))],
            Policy.BOOK: [("@payees", DAILY_LIFE), ("@landlords", RENT)],
            Policy.NOBODY: [],
        }
        grants = [
            {
                "who": f"agent:{agent.id}",
                "may": ["transfer"],
                "assets": {self.mint: {"perTx": str(once), "per": {"24h": str(a_day)}}},
                "to": [to],
                "costs": "0.02",
            }
            for to, (once, a_day) in allowed[policy]
        ]
        document = {"book": self.directory.book(), "grants": grants}
        tokens, agents = token_list("localnet"), {agent.id: agent.id}
        read = read_policy(document, Names(tokens, {"agent": agents}, {self.mint: DECIMALS}))
        await replace_policy(self.service.database, read.sets, read.book)

    async def held(self) -> Counter[str]:
        """What everybody holds whom the owner knows."""
        known = self.directory.addresses.items()
        return Counter({number: await self.units(address) for number, address in known})

    async def lamports(self, address: str) -> int:
        """Lamports of an address, by the ledger."""
        assert self.service.localnet is not None
        found = await self.service.localnet.call("getBalance", [address])
        return int(found["value"])

    async def units(self, address: str) -> int:
        """Tokens of an address, by the ledger."""
        assert self.service.localnet is not None
        found = await self.service.localnet.call(
            "getTokenAccountsByOwner", [address, {"mint": self.mint}, {"encoding": "jsonParsed"}]
        )
        infos = [each["account"]["data"]["parsed"]["info"] for each in found["value"]]
        return sum(int(info["tokenAmount"]["amount"]) for info in infos)

    async def land(self, instructions: Sequence[Instruction], *signers: Keypair) -> None:
        """Put a transaction of the token's issuer on the ledger."""
        assert self.service.localnet is not None
        await land(self.service.localnet.call, instructions, self.bank, *signers)


@contextlib.asynccontextmanager
async def open_lab(folder: Path) -> AsyncIterator[Lab]:
    """The lab on a home of its own."""
    with scripted_model(folder / "site") as (shelf, model):
        install_tools(shelf)
        settings = Settings(
            _env_file=None,
            solward_home=folder / "home",
            xai_api_key="xai-" + secrets.token_hex(32),
            max_sol_per_transaction=1_000,
            max_transactions_per_minute=100_000,
            daily_spending_limit_sol=100_000,
        )
        async with Solward.open(settings) as service:
            assert service.localnet is not None
            bank, mint = Keypair(), Keypair()
            await service.localnet.call("requestAirdrop", [str(bank.pubkey()), 100 * 10**9])
            lab = Lab(service, model, Directory(), bank, str(mint.pubkey()))
            made = mint_instructions(bank.pubkey(), mint.pubkey(), 10**9, decimals=DECIMALS)
            await lab.land(made, mint)
            yield lab
