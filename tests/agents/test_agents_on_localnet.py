"""Agents on the whole service: real plugins, real store, the embedded ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.agents import hire

from solward.agents import store
from solward.agents.agent import Agent, Decision
from solward.agents.cycle import run_cycle
from solward.agents.remember import CycleResult, EnteredCycle, Journal
from solward.service.service import Solward
from solward.settings import Settings
from solward.types.errors import StoreError
from solward.types.record import TransactionStatus
from solward_cli.up.demo import seed_demo

RECIPIENT = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
SOL = 10**9


def settings(home: Path) -> Settings:
    return Settings(_env_file=None, solward_home=home)


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[Solward]:
    async with Solward.open(settings(home), demo=True) as service:
        yield service


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Solward]:
    async with opened(tmp_path) as service:
        yield service


async def decided(service: Solward, agent: Agent) -> Decision:
    """Start an agent and wait for its next decision."""
    with service.events.subscribe() as events:
        await service.agents.start(agent.id)
        async with asyncio.timeout(30):
            async for event in events:
                if event.event == "agent:decision" and event.data["agentId"] == agent.id:
                    break
    return (await service.agents.decisions(agent.id, limit=1))[0]


async def on_ledger(service: Solward, address: str) -> int:
    return await service.ledger.balance(address)


async def test_a_demo_agent_that_was_stopped_stays_stopped(tmp_path: Path) -> None:
    async with opened(tmp_path) as service:
        seed = await seed_demo(service)
        await service.agents.stop(seed.agent.id)
    async with opened(tmp_path) as service:
        assert (await seed_demo(service)).agent.status == "stopped"


@promise("record-fields")
async def test_an_agents_transfer_lands_and_is_its_own(service: Solward) -> None:
    agent = await hire(service, strategy=f"always do transfer to={RECIPIENT} amount=0.25")

    decision = await decided(service, agent)

    assert "0.25 SOL" in decision.outcome
    assert await on_ledger(service, RECIPIENT) == SOL // 4
    [transfer, _airdrop] = await service.history.newest(agent.wallet_id)
    assert (transfer.agent_id, transfer.status) == (agent.id, TransactionStatus.CONFIRMED)
    limits = await service.agents.limits(agent.id)
    assert limits["dailySpendingLimitSol"]["spent"] == Decimal("0.25")


@promise("refused-is-never-signed")
async def test_an_agents_own_limit_blocks_and_the_refusal_is_the_outcome(service: Solward) -> None:
    agent = await hire(
        service,
        strategy=f"always do transfer to={RECIPIENT} amount=0.25",
        guardrails={"maxSolPerTransaction": Decimal("0.1")},
    )

    decision = await decided(service, agent)

    assert decision.outcome.startswith("Transaction blocked by guardrail max_per_tx")
    assert await on_ledger(service, RECIPIENT) == 0
    assert (await service.agents.get(agent.id)).status == "running"
    [blocked, _airdrop] = await service.history.newest(agent.wallet_id)
    assert (blocked.status, blocked.agent_id) == (TransactionStatus.BLOCKED, agent.id)


class Dying:
    """A journal that enters cycles, and dies before it leaves the first."""

    def __init__(self, real: Journal) -> None:
        self.real = real
        self.died = False

    async def enter(self, agent_id: str, cycle: int) -> EnteredCycle | None:
        return await self.real.enter(agent_id, cycle)

    async def leave(self, decision: Decision, fence: int, result: CycleResult) -> bool:
        if not self.died:
            self.died = True
            raise StoreError("killed here")
        return await self.real.leave(decision, fence, result)

    async def abandon(self, agent_id: str, fence: int) -> None:
        await self.real.abandon(agent_id, fence)


@promise("rerun-cycle-pays-once")
@pytest.mark.parametrize("second_thought", ["transfer", "airdrop"])
async def test_a_cycle_that_died_after_paying_pays_once(
    service: Solward, second_thought: str
) -> None:
    agent = await hire(service, strategy=f"always do transfer to={RECIPIENT} amount=0.25")
    async with service.database.write() as connection:
        await store.update_agent(connection, agent.id, {"desired_state": "running"})
    ready = service.agents.parts
    parts = replace(ready, journal=Dying(ready.journal))

    with pytest.raises(StoreError):
        await run_cycle(agent.id, 1, parts)
    assert await on_ledger(service, RECIPIENT) == SOL // 4
    if second_thought == "airdrop":
        await service.agents.update(agent.id, {"strategy": "always do airdrop amount=1"})
    await run_cycle(agent.id, 1, parts)

    assert await on_ledger(service, RECIPIENT) == SOL // 4
    [decision] = await service.agents.decisions(agent.id)
    assert decision.cycle == 1
    assert decision.outcome.startswith("The transaction is confirmed")
    assert len(await service.history.newest(agent.wallet_id)) == 2
