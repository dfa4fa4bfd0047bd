"""What runs in every cycle, and what pages decisions, searches indexes however many rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, insert
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.agent_rows import WALLET, decision, fields

from solward.store import agents, cycles
from solward.vault.store import transactions
from solward.vault.store.database import Database
from solward.vault.store.tables import wallets


async def everything(connection: AsyncConnection) -> None:
    """Each statement that must not walk a table that grows, once."""
    await agents.get_agent(connection, "a")
    await agents.agents_to_run(connection)
    await agents.update_agent(connection, "a", {"name": "Ada"})
    await connection.execute(insert(wallets).values(WALLET | {"id": "w"}))
    await agents.insert_agent(connection, fields("a", wallet_id="w"))
    await cycles.enter(connection, [("a", 1), ("b", 1)])
    await cycles.recall(connection, ["a", "b"])
    await agents.list_memory(connection, "a", 10)
    await transactions.recent(connection, ["w"], 5)
    leaving = cycles.LeavingCycle("a", 1, 1, "running", 0, None, decision("a", 1))
    await cycles.leave(connection, [leaving])
    await connection.execute(cycles.FORGET, [{"of_agent": "a", "up_to": 1}])
    usage = {"agent_id": "a", "hour": 1, "tokens": 1, "cost_nanousd": 1, "unpriced_tokens": 0}
    await agents.add_usage(connection, [usage])
    await agents.used(connection, ["a", "b"], 1)
    await agents.list_decisions(connection, "a", 10)
    await agents.list_decisions(connection, "a", 10, before=5)
    await agents.delete_agent(connection, "a")


@pytest.mark.sqlite("its query plans")
async def test_no_statement_about_agents_walks_a_table(tmp_path: Path) -> None:
    database = await Database.open(None, tmp_path)
    seen: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    async with database.write() as connection:
        event.listen(connection.sync_connection, "before_cursor_execute", note)
        await everything(connection)
        event.remove(connection.sync_connection, "before_cursor_execute", note)
        assert len(seen) == 24
        for statement, many in seen:
            parameters = many[0] if isinstance(many, list) else many
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [row.detail for row in plan]
            assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in steps), (
                statement,
                steps,
            )
    await database.close()
