"""What runs in every cycle, and what pages decisions, searches indexes however many rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.store import agents
from solward.store.database import Database


async def everything(connection: AsyncConnection) -> None:
    """Each statement that must not walk a table that grows, once."""
    await agents.get_agent(connection, "a")
    await agents.agents_to_run(connection)
    await agents.update_agent(connection, "a", {"name": "Ada"})
    await agents.enter_cycle(connection, "a", 1)
    await agents.list_memory(connection, "a", 10)
    await agents.taken_action(connection, "a", 1)
    await agents.leave_cycle(
        connection, "a", 1, next_run_ms=1, status="running", failures=0, error=None
    )
    await agents.insert_decision(
        connection, agent_id="a", cycle=101, observations="{}", reasoning="", action=None,
        outcome="", created_ms=1,
    )  # fmt: skip
    await agents.list_decisions(connection, "a", 10)
    await agents.list_decisions(connection, "a", 10, before=5)
    await agents.delete_agent(connection, "a")


async def test_no_statement_about_agents_walks_a_table(tmp_path: Path) -> None:
    database = await Database.open(None, tmp_path)
    seen: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    async with database.write() as connection:
        event.listen(connection.sync_connection, "before_cursor_execute", note)
        await everything(connection)
        event.remove(connection.sync_connection, "before_cursor_execute", note)
        assert len(seen) == 15
        for statement, parameters in seen:
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [row.detail for row in plan]
            assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in steps), (
                statement,
                steps,
            )
    await database.close()
