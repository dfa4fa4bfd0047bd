"""Agents, their cycles, decisions and memory: every statement about them.

Entering and leaving a cycle are guarded by the fence (reference/scale.md, "The pattern"), so a
stale or duplicate run changes nothing. Each function works inside the caller's transaction and
gives rows as plain fields, named as the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import case, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.record import TransactionRecord
from solward.store.tables import agents, decisions, memory, transactions
from solward.store.transactions import record_of

Fields = dict[str, Any]

MEMORY_KEPT = 100  # contract 2.9

_RUNNING = "running"


async def insert_agent(connection: AsyncConnection, fields: Mapping[str, Any]) -> None:
    """Store a new agent; `fields` are the columns of the agents table."""
    await connection.execute(insert(agents).values(**fields))


async def get_agent(connection: AsyncConnection, agent_id: str) -> Fields | None:
    """One agent, or None."""
    return _one(await connection.execute(select(agents).where(agents.c.id == agent_id)))


async def list_agents(connection: AsyncConnection) -> list[Fields]:
    """All agents, oldest first."""
    rows = await connection.execute(select(agents).order_by(agents.c.created_ms, agents.c.id))
    return [dict(row) for row in rows.mappings()]


async def agents_to_run(connection: AsyncConnection) -> list[tuple[str, int, int | None]]:
    """Id, cycle number and due time (ms, maybe None) of every agent that is to run."""
    statement = select(agents.c.id, agents.c.cycle_no, agents.c.next_run_ms).where(
        agents.c.desired_state == _RUNNING
    )
    return [(row.id, row.cycle_no, row.next_run_ms) for row in await connection.execute(statement)]


async def update_agent(
    connection: AsyncConnection, agent_id: str, fields: Mapping[str, Any]
) -> Fields | None:
    """Change columns of an agent; returns it as it then is, None when there is none."""
    statement = update(agents).where(agents.c.id == agent_id).values(**fields).returning(agents)
    return _one(await connection.execute(statement))


async def delete_agent(connection: AsyncConnection, agent_id: str) -> bool:
    """Remove an agent with its decisions and memory; its transactions stay."""
    for table in (decisions, memory):
        await connection.execute(delete(table).where(table.c.agent_id == agent_id))
    removed = await connection.execute(delete(agents).where(agents.c.id == agent_id))
    return removed.rowcount > 0


async def count_by_status(connection: AsyncConnection) -> dict[str, int]:
    """How many agents show each status."""
    statement = select(agents.c.status, func.count().label("agents")).group_by(agents.c.status)
    return {row.status: row.agents for row in await connection.execute(statement)}


async def enter_cycle(connection: AsyncConnection, agent_id: str, cycle: int) -> Fields | None:
    """Take the next fence for cycle `cycle`; None when it is stale or the agent is not to run."""
    statement = (
        update(agents)
        .where(
            agents.c.id == agent_id,
            agents.c.cycle_no == cycle,
            agents.c.desired_state == _RUNNING,
        )
        .values(fence=agents.c.fence + 1)
        .returning(agents)
    )
    return _one(await connection.execute(statement))


async def leave_cycle(
    connection: AsyncConnection,
    agent_id: str,
    fence: int,
    *,
    next_run_ms: int,
    status: str,
    failures: int,
    error: str | None,
) -> Fields | None:
    """Move on to the next cycle; None when another run took the fence, and nothing changed.

    An agent that was stopped or paused meanwhile keeps the status it was given then.
    """
    statement = (
        update(agents)
        .where(agents.c.id == agent_id, agents.c.fence == fence)
        .values(
            cycle_no=agents.c.cycle_no + 1,
            next_run_ms=next_run_ms,
            status=case((agents.c.desired_state == _RUNNING, status), else_=agents.c.status),
            failures=failures,
            error=error,
        )
        .returning(agents)
    )
    return _one(await connection.execute(statement))


async def taken_action(
    connection: AsyncConnection, agent_id: str, cycle: int
) -> tuple[str, TransactionRecord] | None:
    """The skill and the first transaction of a cycle, when it already asked for one.

    Action keys are `<agent>:<cycle>:<skill>:<ordinal>`; `;` follows `:` in ASCII, which makes
    the prefix a range of the unique index.
    """
    statement = (
        select(transactions)
        .where(
            transactions.c.action_key >= f"{agent_id}:{cycle}:",
            transactions.c.action_key < f"{agent_id}:{cycle};",
        )
        .order_by(transactions.c.seq)
        .limit(1)
    )
    row = (await connection.execute(statement)).first()
    if row is None:
        return None
    skill = str(row._mapping[transactions.c.action_key]).split(":")[2]
    return skill, record_of(row._mapping)


async def insert_decision(
    connection: AsyncConnection,
    *,
    agent_id: str,
    cycle: int,
    observations: str,
    reasoning: str,
    action: str | None,
    outcome: str,
    created_ms: int,
) -> None:
    """Store a cycle's decision and its memory entry, and forget what is beyond the last 100."""
    entry = {
        "agent_id": agent_id,
        "cycle": cycle,
        "reasoning": reasoning,
        "action": action,
        "outcome": outcome,
        "created_ms": created_ms,
    }
    await connection.execute(insert(decisions).values(observations=observations, **entry))
    await connection.execute(insert(memory).values(**entry))
    # Every cycle that is left leaves exactly one entry, so cycle numbers count the entries.
    await connection.execute(
        delete(memory).where(memory.c.agent_id == agent_id, memory.c.cycle <= cycle - MEMORY_KEPT)
    )


async def list_decisions(
    connection: AsyncConnection, agent_id: str, limit: int, before: int | None = None
) -> list[Fields]:
    """An agent's decisions, newest first, of cycles before `before`."""
    statement = select(decisions).where(decisions.c.agent_id == agent_id)
    if before is not None:
        statement = statement.where(decisions.c.cycle < before)
    rows = await connection.execute(statement.order_by(decisions.c.cycle.desc()).limit(limit))
    return [dict(row) for row in rows.mappings()]


async def list_memory(
    connection: AsyncConnection, agent_id: str, limit: int = MEMORY_KEPT
) -> list[Fields]:
    """An agent's memory entries, newest first."""
    statement = select(memory).where(memory.c.agent_id == agent_id)
    rows = await connection.execute(statement.order_by(memory.c.cycle.desc()).limit(limit))
    return [dict(row) for row in rows.mappings()]


def _one(result: Any) -> Fields | None:
    row = result.mappings().first()
    return None if row is None else dict(row)
