"""Agents, cycles and memory in a real SQLite."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert
from tests.promises import promise
from tests.support.database import WALLET_ROW, agent_row, leaving_cycle

from solward.agents import remember as cycles
from solward.agents import store
from solward.agents.agent import TokensUsed
from solward.agents.remember import LeftCycle, RecalledState
from solward.database.database import Database
from solward.database.tables import wallets
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store.transactions import insert_record, recent


@pytest.fixture
async def database(database: Database) -> Database:
    async with database.write() as connection:
        await connection.execute(insert(wallets).values(WALLET_ROW))
    return database


async def made(database: Database, *rows: dict[str, Any]) -> None:
    async with database.write() as connection:
        for row in rows:
            await store.insert_agent(connection, row)


async def enter(
    database: Database, cycle: int, agent_id: str = "a1"
) -> tuple[dict[str, Any], RecalledState] | None:
    async with database.write() as connection:
        [entered] = await cycles.enter(connection, [(agent_id, cycle)])
        if entered is None:
            return None
        recalled = await cycles.recall(connection, [agent_id])
    return entered, recalled[agent_id]


async def leave(
    database: Database, fence: int, cycle: int = 1, **changes: Any
) -> dict[str, Any] | None:
    standing: dict[str, Any] = {
        "next_run_ms": 99,
        "status": "running",
        "failures": 0,
        "error": None,
    } | changes
    leaving = leaving_cycle("a1", fence, cycle, **standing)
    async with database.write() as connection:
        [left] = await cycles.leave(connection, [leaving])
        return None if left is None else await store.get_agent(connection, "a1")


async def test_entering_takes_the_fence_and_leaving_moves_the_cycle_on(database: Database) -> None:
    await made(database, agent_row())

    entered = await enter(database, 1)
    assert entered is not None
    assert (entered[0]["fence"], entered[0]["cycle_no"]) == (1, 1)

    left = await leave(database, 1, failures=2, error="why", status="error")
    assert left is not None
    assert (left["cycle_no"], left["next_run_ms"], left["status"]) == (2, 99, "error")
    assert (left["failures"], left["error"]) == (2, "why")


async def test_a_stale_cycle_is_not_entered(database: Database) -> None:
    await made(database, agent_row(cycle_no=5))
    assert await enter(database, 4) is None
    assert await enter(database, 6) is None
    assert await enter(database, 5) is not None


@pytest.mark.parametrize("desired", ["stopped", "paused"])
async def test_an_agent_that_is_not_to_run_is_not_entered(database: Database, desired: str) -> None:
    await made(database, agent_row(desired_state=desired))
    assert await enter(database, 1) is None


async def test_a_run_that_lost_the_fence_changes_nothing(database: Database) -> None:
    await made(database, agent_row())
    await enter(database, 1)
    await enter(database, 1)
    assert await leave(database, 1) is None
    assert await leave(database, 2) is not None
    assert await leave(database, 2) is None, "a cycle is left once"
    async with database.read() as connection:
        assert len(await store.list_decisions(connection, "a1", 10)) == 1


async def test_concurrent_entries_of_one_cycle_get_different_fences(database: Database) -> None:
    await made(database, agent_row())
    entered = await asyncio.gather(*(enter(database, 1) for _ in range(5)))
    assert sorted(each[0]["fence"] for each in entered if each) == [1, 2, 3, 4, 5]


async def test_leaving_keeps_the_status_of_an_agent_stopped_meanwhile(database: Database) -> None:
    await made(database, agent_row())
    await enter(database, 1)
    async with database.write() as connection:
        await store.update_agent(
            connection, "a1", {"status": "stopped", "desired_state": "stopped"}
        )
    left = await leave(database, 1, status="error")
    assert left is not None
    assert (left["status"], left["cycle_no"]) == ("stopped", 2)


@promise("memory-keeps-100")
async def test_a_hundred_memory_entries_are_kept_and_every_decision(database: Database) -> None:
    await made(database, agent_row())
    for cycle in range(1, 131):
        entered = await enter(database, cycle)
        assert entered is not None
        given = [entry[0] for entry in entered[1].memory]
        assert given == list(range(cycle - 1, max(cycle - 11, 0), -1))
        await leave(database, cycle, cycle)
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
        agent_row("a2", created_ms=2, status="idle", desired_state="stopped"),
        agent_row("a1"),
        agent_row("a3", created_ms=3, status="error"),
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
        await cycles.enter(connection, [("a1", 1)])
        leaving = leaving_cycle("a1", 1, next_run_ms=99)
        assert await cycles.leave(connection, [leaving]) != [None]
        usage = {"agent_id": "a1", "hour": 7, "tokens": 5, "cost_nanousd": 3, "unpriced_tokens": 1}
        await store.add_usage(connection, [usage, usage])
        assert await store.usage_by_agent(connection, ["a1", "a2"], 31) == {
            "a1": TokensUsed(tokens=10, nanousd=6, unpriced=2)
        }
        assert await store.usage_by_agent(connection, ["a1"], 32) == {}
        assert await store.delete_agent(connection, "a1")
        assert not await store.delete_agent(connection, "a1")
        assert await store.list_decisions(connection, "a1", 10) == []
        assert await store.list_memory(connection, "a1") == []
        assert await store.usage_by_agent(connection, ["a1"], 7) == {}


async def test_the_action_a_cycle_had_taken_is_found_by_its_own_number_only(
    database: Database,
) -> None:
    record = TransactionRecord(
        id="t1", wallet_id="w1", type="transfer", status=TransactionStatus.PENDING, details={},
        guardrails_applied=(), created_ms=1, agent_id="a12", principal="agent:a12",
    )  # fmt: skip
    await made(database, *(agent_row(f"a{n}", cycle_no=n) for n in (1, 12, 121)))
    await made(database, agent_row("a", cycle_no=12))
    async with database.write() as connection:
        for number in (2, 1):
            key = f"a12:12:transfer:{number}"
            each = replace(record, id=f"t{number}")
            await insert_record(connection, each, action_key=key)
    found = await enter(database, 12, "a12")
    assert found is not None
    assert found[1].earlier_action == ("transfer", replace(record, id="t1"))
    for agent_id, cycle in (("a1", 1), ("a121", 121), ("a", 12)):
        other = await enter(database, cycle, agent_id)
        assert other is not None
        assert other[1].earlier_action is None


async def test_a_batch_enters_and_leaves_each_agent_by_itself(database: Database) -> None:
    await made(database, agent_row("a1"), agent_row("a2", cycle_no=7), agent_row("a3", name="Bo"))
    async with database.write() as connection:
        wanted = [("a3", 1), ("a2", 6), ("zz", 1), ("a1", 1), ("a1", 1)]
        entered = await cycles.enter(connection, wanted)
        assert [each and each["id"] for each in entered] == ["a3", None, None, "a1", None]
        leaving = [
            leaving_cycle("a1", 1, next_run_ms=50, status="error", failures=3, error="why"),
            leaving_cycle("a2", 0, 6, next_run_ms=51),
            leaving_cycle("a3", 1, next_run_ms=52),
        ]
        left = await cycles.leave(connection, leaving)
        assert left == [
            LeftCycle("Ada", "running", "running"), None, LeftCycle("Bo", "running", "running"),
        ]  # fmt: skip
        rows = {row["id"]: row for row in await store.list_agents(connection)}
    assert {name: (row["cycle_no"], row["next_run_ms"]) for name, row in rows.items()} == {
        "a1": (2, 50), "a2": (7, 5), "a3": (2, 52),
    }  # fmt: skip
    assert (rows["a1"]["status"], rows["a1"]["failures"]) == ("error", 3)


async def test_the_newest_transactions_of_many_wallets_are_each_wallets_own(
    database: Database,
) -> None:
    async with database.write() as connection:
        await connection.execute(
            insert(wallets).values(WALLET_ROW | {"id": "w2", "public_key": "k2"})
        )
        for number in range(14):
            wallet = "w1" if number % 2 else "w2"
            record = TransactionRecord(
                id=f"t{number}", wallet_id=wallet, type="transfer", details={},
                status=TransactionStatus.CONFIRMED, guardrails_applied=(), created_ms=1,
                principal="x",
            )  # fmt: skip
            await insert_record(connection, record, action_key=None)
    async with database.read() as connection:
        found = await recent(connection, ["w1", "w2", "w3"], 5)
    assert {name: [each.id for each in records] for name, records in found.items()} == {
        "w1": ["t13", "t11", "t9", "t7", "t5"],
        "w2": ["t12", "t10", "t8", "t6", "t4"],
    }
