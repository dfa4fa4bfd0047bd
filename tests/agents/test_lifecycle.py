"""Stopped, deleted or restarted at any moment, an agent is what its history says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

import pytest
from sqlalchemy import func, select
from tests.support.agents import hire, scripted_model
from tests.support.clock import until

from solward.agents.agent import Agent, DesiredState
from solward.agents.cycle import Phase
from solward.database.tables import agent_usage, agents, decisions, memory
from solward.resources.agents import AgentStatus
from solward.service.service import Solward
from solward.settings import Settings
from solward.testing import ScriptedProvider
from solward.types.errors import AgentNotFound, ProviderError
from solward.types.provider import Completion, ToolCall
from solward.types.record import TransactionStatus
from solward.vault.money.steps import Step
from solward_server.resources.wallets import limits_of

RECIPIENT = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
AMOUNT = Decimal("0.25")
LAMPORTS = 250_000_000
PAYING = Completion("Paying.", (ToolCall("transfer", {"to": RECIPIENT, "amount": AMOUNT}),))
BEFORE_PAYING = (Phase.ENTERED, Phase.THOUGHT)
PAYING_POINTS = (Step.RESERVED, Step.WRITTEN_AHEAD, Step.LANDED)


@dataclass
class Watch:
    """Begins an action of an operator at one point of a cycle, once."""

    point: StrEnum | None = None
    act: Callable[[], Awaitable[object]] | None = None
    begun: list[asyncio.Future[object]] = field(default_factory=list)

    def at(self, point: StrEnum) -> None:
        if point == self.point and self.act is not None and not self.begun:
            self.begun.append(asyncio.ensure_future(self.act()))

    async def acted(self) -> None:
        """Wait until the action has begun and ended."""
        async with asyncio.timeout(30):
            while not self.begun:
                await asyncio.sleep(0.005)
            await self.begun[0]


@dataclass
class Stand:
    """One home, opened and closed as a process would be."""

    home: Path
    model: ScriptedProvider
    watch: Watch = field(default_factory=Watch)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Solward]:
        settings = Settings(_env_file=None, solward_home=self.home, xai_api_key="k" * 20)
        async with Solward.open(
            settings,
            step_hook=self.watch.at,
            phase_hook=lambda _agent, phase: self.watch.at(phase),
        ) as service:
            yield service


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    with scripted_model(tmp_path / "site") as (_shelf, model):
        model.answer = lambda request: PAYING
        yield Stand(tmp_path / "home", model)


async def decided(service: Solward, agent: Agent, number: int) -> None:
    """Wait until the agent has decided `number` times."""

    async def holds() -> bool:
        return len(await service.agents.decisions(agent.id)) >= number

    await until(holds)


async def rows_of(service: Solward, agent: Agent) -> list[int]:
    """How many rows the store has of the agent itself: agents, decisions, memory, usage."""
    counts = []
    async with service.database.read() as connection:
        for column in (agents.c.id, *(t.c.agent_id for t in (decisions, memory, agent_usage))):
            statement = select(func.count()).where(column == agent.id)
            counts.append(await connection.scalar(statement) or 0)
    return counts


async def transfers(service: Solward, agent: Agent) -> list[TransactionStatus]:
    records = await service.history.newest(agent.wallet_id)
    return [record.status for record in records if record.type == "transfer"]


@pytest.mark.parametrize("point", PAYING_POINTS)
async def test_a_stop_while_paying_answers_when_the_payment_is_recorded(
    stand: Stand, point: Step
) -> None:
    async with stand.opened() as service:
        agent = await hire(service, "scripted")
        stand.watch.point, stand.watch.act = point, lambda: service.agents.stop(agent.id)
        await service.agents.start(agent.id)
        await stand.watch.acted()

        [decision] = await service.agents.decisions(agent.id)
        assert "Status: confirmed" in decision.outcome
        [remembered] = await service.agents.memory(agent.id)
        assert remembered.outcome == decision.outcome
        assert await transfers(service, agent) == [TransactionStatus.CONFIRMED]
        assert await service.ledger.balance(RECIPIENT) == LAMPORTS
        limits = await service.agents.limits(agent.id)
        assert limits["dailySpendingLimitSol"]["reserved"] == 0
        stopped = await service.agents.get(agent.id)
        assert (stopped.status, stopped.cycle_no) == (AgentStatus.STOPPED, 2)


@pytest.mark.parametrize("point", [*BEFORE_PAYING, *PAYING_POINTS, Phase.ACTED])
async def test_an_agent_deleted_in_its_cycle_leaves_its_transactions_and_nothing_else(
    stand: Stand, point: StrEnum
) -> None:
    async with stand.opened() as service:
        agent = await hire(service, "scripted")
        stand.watch.point, stand.watch.act = point, lambda: service.agents.delete(agent.id)
        await service.agents.start(agent.id)
        await stand.watch.acted()

        with pytest.raises(AgentNotFound):
            await service.agents.get(agent.id)
        assert await rows_of(service, agent) == [0, 0, 0, 0]
        paid = await transfers(service, agent)
        assert set(paid) <= {TransactionStatus.CONFIRMED}
        if point not in BEFORE_PAYING:
            assert len(paid) == 1
        assert await service.ledger.balance(RECIPIENT) == LAMPORTS * len(paid)
        limits = await limits_of(service, agent.wallet_id)
        assert limits["dailySpendingLimitSol"]["reserved"] == 0
    async with stand.opened() as service:
        assert await service.agents.list() == ()
        assert await service.ledger.balance(RECIPIENT) == LAMPORTS * len(paid)


@pytest.mark.more
@pytest.mark.parametrize("wish", [DesiredState.PAUSED, DesiredState.STOPPED])
async def test_set_aside_it_stays_so_over_restarts_until_it_is_started(
    stand: Stand, wish: DesiredState
) -> None:
    async with stand.opened() as service:
        agent = await hire(service, "scripted")
        other = await hire(service, "scripted", loopIntervalMs=1000)
        await service.agents.start(agent.id)
        await service.agents.start(other.id)
        await decided(service, agent, 1)
        if wish is DesiredState.PAUSED:
            await service.agents.pause(agent.id)
        else:
            await service.agents.stop(agent.id)
    for _ in range(2):
        async with stand.opened() as service:
            before = len(await service.agents.decisions(other.id, limit=500))
            await decided(service, other, before + 1)
            shown = await service.agents.get(agent.id)
            assert (shown.status, shown.desired_state) == (wish.value, wish.value)
            assert len(await service.agents.decisions(agent.id)) == 1
            assert (await service.agents.get(other.id)).status == AgentStatus.RUNNING
    async with stand.opened() as service:
        await service.agents.start(agent.id)
        await decided(service, agent, 2)
        assert [each.cycle for each in await service.agents.decisions(agent.id)] == [2, 1]


async def test_error_is_durable_and_one_good_cycle_ends_it_for_good(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solward.agents.cycle.backoff_ms", lambda interval, failures: 20)
    stand.model.answer = lambda request: ProviderError("The model is away")
    async with stand.opened() as service:
        agent = await hire(service, "scripted")
        await service.agents.start(agent.id)
        await decided(service, agent, 2)

        async def shows_error() -> bool:
            return (await service.agents.get(agent.id)).status is AgentStatus.ERROR

        await until(shows_error)
        third = (await service.agents.decisions(agent.id, limit=500))[-3]
        assert third.cycle == 3
        assert third.outcome == "The model is away"
    async with stand.opened() as service:
        failed = await service.agents.get(agent.id)
        assert (failed.status, failed.desired_state) == (AgentStatus.ERROR, DesiredState.RUNNING)
        assert failed.error == "The model is away"
        assert failed.failures >= 3
        stand.model.answer = lambda request: Completion("Fine again.")

        async def runs() -> bool:
            return (await service.agents.get(agent.id)).status is AgentStatus.RUNNING

        await until(runs)
    async with stand.opened() as service:
        well = await service.agents.get(agent.id)
        assert (well.status, well.failures, well.error) == (AgentStatus.RUNNING, 0, None)
        cycles = [each.cycle for each in await service.agents.decisions(agent.id, limit=500)]
        assert cycles == list(range(len(cycles), 0, -1))
