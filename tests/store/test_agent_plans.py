"""What runs in every cycle, and what pages decisions, searches indexes however many rows."""

from __future__ import annotations

import pytest
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.database import WALLET_ROW, agent_row, leaving_cycle, query_plans

from solward.agents import remember as cycles
from solward.agents import store as agents
from solward.database.database import Database
from solward.database.tables import wallets
from solward.resources.agents import MEMORY_KEPT
from solward.vault.store import transactions


async def everything(connection: AsyncConnection) -> None:
    """Each statement that must not walk a table that grows, once."""
    late = MEMORY_KEPT + 1
    await agents.get_agent(connection, "a")
    await agents.agents_to_run(connection)
    await agents.update_agent(connection, "a", {"name": "Ada"})
    await connection.execute(insert(wallets).values(WALLET_ROW | {"id": "w"}))
    await agents.insert_agent(connection, agent_row("a", wallet_id="w"))
    await cycles.enter(connection, [("a", 1), ("b", 1)])
    await cycles.recall(connection, ["a", "b"])
    await agents.list_memory(connection, "a", 10)
    await transactions.recent(connection, ["w"], 5)
    await cycles.leave(connection, [leaving_cycle("a", 1)])
    # So late that it forgets an entry.
    await agents.update_agent(connection, "a", {"cycle_no": late})
    await cycles.leave(connection, [leaving_cycle("a", 1, late)])
    usage = {"agent_id": "a", "hour": 1, "tokens": 1, "cost_nanousd": 1, "unpriced_tokens": 0}
    await agents.add_usage(connection, [usage])
    await agents.usage_by_agent(connection, ["a", "b"], 1)
    await agents.list_decisions(connection, "a", 10)
    await agents.list_decisions(connection, "a", 10, before=5)
    await agents.delete_agent(connection, "a")


@pytest.mark.sqlite("its query plans")
async def test_no_statement_about_agents_walks_a_table(database: Database) -> None:
    plans = await query_plans(database, everything)
    assert len(plans) == 30
    for statement, steps in plans:
        # A row that is given is scanned too: it is one.
        steps = [step for step in steps if step != "SCAN CONSTANT ROW"]
        assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in steps), (
            statement,
            steps,
        )
