"""One logical action is one payment, whatever a second run of it asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.agents import hire_running, scripted_model
from tests.support.plugins import skill_source

from solward.agents import store as agent_store
from solward.agents.act import actor_of
from solward.agents.agent import Agent
from solward.agents.cycle import run_cycle
from solward.context import AgentView
from solward.database.tables import transactions
from solward.service.service import Solward
from solward.settings import Settings
from solward.types.errors import GuardrailBlocked, SkillError
from solward.types.provider import Completion, ToolCall
from solward.types.record import TransactionStatus

RECIPIENT = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
SOL = 10**9
PAY_TWICE = skill_source(
    "pay_twice",
    effects="Effects.SPEND",
    schema='{"type": "object", "properties": {"stumbles": {"type": "boolean"}},'
    ' "additionalProperties": False}',
    body=f"""
    first = await context.transfer(to={RECIPIENT!r}, amount=Decimal("0.1"))
    if params.get("stumbles"):
        raise SkillError("stumbled", "Stumbled.")
    second = await context.transfer(to={RECIPIENT!r}, amount=Decimal("0.2"))
    return first.id + " " + second.id
    """,
    extra="from decimal import Decimal",
)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Solward]:
    """The whole service, with a scripted model and a skill that pays twice."""
    with scripted_model(tmp_path / "site") as (shelf, model):
        shelf.install("pays-twice", {"pay_twice": PAY_TWICE})
        model.answer = lambda request: Completion("Twice.", (ToolCall("pay_twice", {}),))
        settings = Settings(_env_file=None, solward_home=tmp_path / "home", xai_api_key="k" * 20)
        async with Solward.open(settings) as opened:
            yield opened


async def run(
    service: Solward, agent: Agent, cycle: int, skill: str, params: Mapping[str, Any]
) -> str:
    """A skill as a cycle of the agent runs it, which is the agent's."""
    async with service.database.write() as connection:
        await agent_store.update_agent(connection, agent.id, {"cycle_no": cycle})
    actor = actor_of(agent, cycle, skill)
    view = AgentView(agent.id, agent.name)
    return await service.skill_runs.run(skill, params, agent.wallet_id, actor, view)


async def keys(service: Solward, agent: Agent) -> list[str]:
    statement = select(transactions.c.action_key).where(transactions.c.agent_id == agent.id)
    async with service.database.read() as connection:
        return sorted((await connection.execute(statement)).scalars())


def transfer(amount: str) -> dict[str, Any]:
    return {"to": RECIPIENT, "amount": Decimal(amount)}


async def test_each_payment_of_a_cycle_has_its_own_number(service: Solward) -> None:
    agent = await hire_running(service, "scripted")

    await run_cycle(agent.id, 1, service.agents.parts)

    assert await keys(service, agent) == [
        f"{agent.id}:1:pay_twice:1",
        f"{agent.id}:1:pay_twice:2",
    ]
    assert await service.ledger.balance(RECIPIENT) == 3 * SOL // 10
    [decision] = await service.agents.decisions(agent.id)
    for record in await service.history.newest(agent.wallet_id, limit=2):
        assert record.id in decision.outcome


async def test_a_skill_run_again_after_half_of_it_pays_the_other_half_only(
    service: Solward,
) -> None:
    agent = await hire_running(service, "scripted")
    with pytest.raises(SkillError, match="Stumbled"):
        await run(service, agent, 1, "pay_twice", {"stumbles": True})
    assert await service.ledger.balance(RECIPIENT) == SOL // 10

    first, second = (await run(service, agent, 1, "pay_twice", {})).split()
    again = await run(service, agent, 1, "pay_twice", {})

    assert again.split() == [first, second]
    assert first != second
    assert await service.ledger.balance(RECIPIENT) == 3 * SOL // 10
    assert len(await keys(service, agent)) == 2


async def test_another_amount_in_the_same_cycle_gets_the_first_ones_record(
    service: Solward,
) -> None:
    agent = await hire_running(service, "scripted")
    told = await run(service, agent, 1, "transfer", transfer("0.25"))
    again = await run(service, agent, 1, "transfer", transfer("0.5"))

    assert "Sent 0.25 SOL" in told
    assert "Sent 0.25 SOL" in again
    assert await service.ledger.balance(RECIPIENT) == SOL // 4
    [record, _airdrop] = await service.history.newest(agent.wallet_id)
    assert record.details["amount"] == Decimal("0.25")


async def test_the_next_cycle_pays_anew_and_another_agent_for_itself(service: Solward) -> None:
    agent = await hire_running(service, "scripted")
    for cycle in (1, 2):
        await run(service, agent, cycle, "transfer", transfer("0.25"))
    assert await service.ledger.balance(RECIPIENT) == SOL // 2
    other = await hire_running(service, "scripted")
    await run(service, other, 1, "transfer", transfer("0.25"))
    assert await service.ledger.balance(RECIPIENT) == SOL * 3 // 4


async def test_what_was_refused_stays_refused_for_a_smaller_amount(service: Solward) -> None:
    agent = await hire_running(service, "scripted")
    with pytest.raises(GuardrailBlocked) as refused:
        await run(service, agent, 1, "transfer", transfer("2.5"))
    with pytest.raises(GuardrailBlocked) as again:
        await run(service, agent, 1, "transfer", transfer("0.1"))

    assert str(again.value) == str(refused.value)
    assert await service.ledger.balance(RECIPIENT) == 0
    [record, _airdrop] = await service.history.newest(agent.wallet_id)
    assert record.status is TransactionStatus.BLOCKED
