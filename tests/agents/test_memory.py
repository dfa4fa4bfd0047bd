"""What an agent is given of its memory, whichever process ran its cycles."""

from __future__ import annotations

import pytest
from sqlalchemy import insert
from tests.promises import promise
from tests.support.database import WALLET_ROW, agent_row

from solward.agents import store
from solward.agents.agent import Decision
from solward.agents.remember import CycleResult, EnteredCycle, Journal
from solward.database.database import Database
from solward.database.tables import wallets
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store.transactions import insert_record

GUARDRAILS = (
    '{"maxSolPerTransaction": 2, "maxTransactionsPerMinute": 5, "dailySpendingLimitSol": 10}'
)


@pytest.fixture
async def database(database: Database) -> Database:
    async with database.write() as connection:
        await connection.execute(insert(wallets).values(WALLET_ROW))
        await store.insert_agent(
            connection, agent_row(guardrails=GUARDRAILS, llm_options="{}", llm_budget="{}")
        )
    return database


async def cycle(journal: Journal, number: int, outcome: str) -> EnteredCycle:
    entered = await journal.enter("a1", number)
    assert entered is not None
    decision = Decision("a1", number, {}, "why", None, outcome, number)
    assert await journal.leave(decision, entered.agent.fence, CycleResult("running", 0, None, 1))
    return entered


def outcomes(entered: EnteredCycle) -> list[str]:
    return [entry.outcome for entry in entered.memory]


@promise("model-is-given")
async def test_ten_entries_are_given_newest_first(database: Database) -> None:
    journal = Journal(database)
    for number in range(1, 15):
        entered = await cycle(journal, number, str(number))
        expected = [str(each) for each in range(number - 1, max(number - 11, 0), -1)]
        assert outcomes(entered) == expected
    assert outcomes(await cycle(Journal(database), 15, "15")) == [
        str(each) for each in range(14, 4, -1)
    ]


async def test_a_cycle_run_elsewhere_meanwhile_is_remembered_too(database: Database) -> None:
    here, there = Journal(database), Journal(database)
    await cycle(here, 1, "here")
    await cycle(there, 2, "there")
    assert outcomes(await cycle(here, 3, "here again")) == ["there", "here"]
    assert outcomes(await cycle(there, 4, "end")) == ["here again", "there", "here"]


async def test_a_cycle_entered_elsewhere_and_not_left_is_looked_up(database: Database) -> None:
    here, there = Journal(database), Journal(database)
    await cycle(here, 1, "here")
    assert await there.enter("a1", 2) is not None
    record = TransactionRecord(
        id="t1", wallet_id="w1", type="transfer", status=TransactionStatus.PENDING, details={},
        guardrails_applied=(), created_ms=1, agent_id="a1", principal="agent:a1",
    )  # fmt: skip
    async with database.write() as connection:
        await insert_record(connection, record, action_key="a1:2:transfer:1")
    entered = await here.enter("a1", 2)
    assert entered is not None
    assert entered.agent.fence == 3
    assert outcomes(entered) == ["here"]
    assert entered.earlier_action == ("transfer", record), "its payment is not made again"
