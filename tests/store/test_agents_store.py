"""Agents, cycles and memory in a real SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from solward.record import TransactionRecord, TransactionStatus
from solward.store import agents as store
from solward.store.database import Database
from solward.store.tables import wallets
from solward.store.transactions import insert_record


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(None, tmp_path)
    async with opened.write() as connection:
        await connection.execute(
            insert(wallets).values(
                id="w1", name="w", public_key="k", tags=[], created_ms=0, kek_version=1,
                wrapped_data_key=b"", sealed_key=b"",
            )
        )  # fmt: skip
    yield opened
    await opened.close()


def fields(agent_id: str = "a1", **changes: Any) -> dict[str, Any]:
    return {
        "id": agent_id,
        "name": "Ada",
        "wallet_id": "w1",
        "llm_provider": "rules",
        "llm_model": "rules",
        "strategy": "always do wait",
        "guardrails": "{}",
        "loop_interval_ms": 1000,
        "status": "running",
        "desired_state": "running",
        "created_ms": 1,
        "next_run_ms": 5,
        "cycle_no": 1,
        "fence": 0,
        "failures": 0,
        "error": None,
    } | changes


async def made(database: Database, *rows: dict[str, Any]) -> None:
    async with database.write() as connection:
        for row in rows:
            await store.insert_agent(connection, row)


async def enter(database: Database, cycle: int) -> dict[str, Any] | None:
    async with database.write() as connection:
        return await store.enter_cycle(connection, "a1", cycle)


async def leave(database: Database, fence: int, **changes: Any) -> dict[str, Any] | None:
    standing: dict[str, Any] = {
        "next_run_ms": 99,
        "status": "running",
        "failures": 0,
        "error": None,
    } | changes
    async with database.write() as connection:
        return await store.leave_cycle(connection, "a1", fence, **standing)


async def test_entering_takes_the_fence_and_leaving_moves_the_cycle_on(database: Database) -> None:
    await made(database, fields())

    entered = await enter(database, 1)
    assert entered is not None
    assert (entered["fence"], entered["cycle_no"]) == (1, 1)

    left = await leave(database, 1, failures=2, error="why", status="error")
    assert left is not None
    assert (left["cycle_no"], left["next_run_ms"], left["status"]) == (2, 99, "error")
    assert (left["failures"], left["error"]) == (2, "why")


async def test_a_stale_cycle_is_not_entered(database: Database) -> None:
    await made(database, fields(cycle_no=5))
    assert await enter(database, 4) is None
    assert await enter(database, 6) is None
    assert await enter(database, 5) is not None


@pytest.mark.parametrize("desired", ["stopped", "paused"])
async def test_an_agent_that_is_not_to_run_is_not_entered(database: Database, desired: str) -> None:
    await made(database, fields(desired_state=desired))
    assert await enter(database, 1) is None


async def test_a_run_that_lost_the_fence_changes_nothing(database: Database) -> None:
    await made(database, fields())
    await enter(database, 1)
    await enter(database, 1)
    assert await leave(database, 1) is None
    assert await leave(database, 2) is not None
    assert await leave(database, 2) is not None, "the fence is only taken by entering"


async def test_concurrent_entries_of_one_cycle_get_different_fences(database: Database) -> None:
    await made(database, fields())
    entered = await asyncio.gather(*(enter(database, 1) for _ in range(5)))
    assert sorted(row["fence"] for row in entered if row) == [1, 2, 3, 4, 5]


async def test_leaving_keeps_the_status_of_an_agent_stopped_meanwhile(database: Database) -> None:
    await made(database, fields())
    await enter(database, 1)
    async with database.write() as connection:
        await store.update_agent(
            connection, "a1", {"status": "stopped", "desired_state": "stopped"}
        )
    left = await leave(database, 1, status="error")
    assert left is not None
    assert (left["status"], left["cycle_no"]) == ("stopped", 2)


async def test_a_hundred_memory_entries_are_kept_and_every_decision(database: Database) -> None:
    await made(database, fields())
    async with database.write() as connection:
        for cycle in range(1, 131):
            await store.insert_decision(
                connection, agent_id="a1", cycle=cycle, observations="{}", reasoning="r",
                action=None, outcome="o", created_ms=cycle,
            )  # fmt: skip
    async with database.read() as connection:
        kept = await store.list_memory(connection, "a1", 1000)
        decided = await store.list_decisions(connection, "a1", 500)
        page = await store.list_decisions(connection, "a1", 2, before=50)
    assert [entry["cycle"] for entry in kept] == list(range(130, 30, -1))
    assert len(decided) == 130
    assert [row["cycle"] for row in page] == [49, 48]


async def test_agents_are_listed_changed_counted_and_deleted(database: Database) -> None:
    await made(
        database,
        fields("a2", created_ms=2, status="idle", desired_state="stopped"),
        fields("a1"),
        fields("a3", created_ms=3, status="error"),
    )
    async with database.write() as connection:
        assert [row["id"] for row in await store.list_agents(connection)] == ["a1", "a2", "a3"]
        assert sorted(await store.agents_to_run(connection)) == [("a1", 1, 5), ("a3", 1, 5)]
        assert await store.count_by_status(connection) == {"running": 1, "idle": 1, "error": 1}
        changed = await store.update_agent(connection, "a1", {"name": "Bo"})
        assert changed is not None
        assert changed["name"] == "Bo"
        assert await store.update_agent(connection, "zz", {"name": "Bo"}) is None
        assert await store.get_agent(connection, "zz") is None
        await store.insert_decision(
            connection, agent_id="a1", cycle=1, observations="{}", reasoning="r", action=None,
            outcome="o", created_ms=1,
        )  # fmt: skip
        assert await store.delete_agent(connection, "a1")
        assert not await store.delete_agent(connection, "a1")
        assert await store.list_decisions(connection, "a1", 10) == []
        assert await store.list_memory(connection, "a1") == []


async def test_the_action_a_cycle_had_taken_is_found_by_its_own_number_only(
    database: Database,
) -> None:
    record = TransactionRecord(
        id="t1", wallet_id="w1", type="transfer", status=TransactionStatus.PENDING, details={},
        guardrails_applied=(), created_ms=1, agent_id="a1",
    )  # fmt: skip
    async with database.write() as connection:
        await insert_record(connection, record, principal="agent:a1", action_key="a1:12:transfer:1")
    async with database.read() as connection:
        assert await store.taken_action(connection, "a1", 12) == ("transfer", record)
        assert await store.taken_action(connection, "a1", 1) is None
        assert await store.taken_action(connection, "a1", 121) is None
        assert await store.taken_action(connection, "a", 12) is None
