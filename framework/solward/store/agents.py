"""Agents, their cycles, decisions and memory: every statement about them.

Entering and leaving a cycle are guarded by the fence (reference/scale.md, "The pattern"), so a
stale or duplicate run changes nothing. Each function works inside the caller's transaction and
gives rows as plain fields, named as the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, case, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.record import TransactionRecord
from solward.store.tables import agents, decisions, memory, transactions
from solward.store.transactions import RECORD, record_of

Fields = dict[str, Any]

MEMORY_KEPT = 100  # contract 2.9

_RUNNING = "running"

# What runs in every cycle is built once: building a statement costs more than running it.
_ENTER = (
    update(agents)
    .where(
        agents.c.id == bindparam("of_agent"),
        agents.c.cycle_no == bindparam("of_cycle"),
        agents.c.desired_state == _RUNNING,
    )
    .values(fence=agents.c.fence + 1)
    .returning(agents)
)
# An agent that was stopped or paused meanwhile keeps the status it was given then.
_LEAVE = (
    update(agents)
    .where(agents.c.id == bindparam("of_agent"), agents.c.fence == bindparam("of_fence"))
    .values(
        cycle_no=agents.c.cycle_no + 1,
        next_run_ms=bindparam("to_next_run_ms"),
        status=case(
            (agents.c.desired_state == _RUNNING, bindparam("to_status")), else_=agents.c.status
        ),
        failures=bindparam("to_failures"),
        error=bindparam("to_error"),
    )
    .returning(agents)
)
# Action keys are `<agent>:<cycle>:<skill>:<ordinal>`; `;` follows `:` in ASCII, which makes the
# prefix a range of the unique index.
_TAKEN = (
    select(transactions.c.action_key, *RECORD)
    .where(
        transactions.c.action_key >= bindparam("from_key"),
        transactions.c.action_key < bindparam("to_key"),
    )
    .order_by(transactions.c.action_key)
    .limit(1)
)
_DECIDE = insert(decisions)
_REMEMBER = insert(memory)
_FORGET = delete(memory).where(
    memory.c.agent_id == bindparam("of_agent"), memory.c.cycle <= bindparam("up_to")
)
_MEMORY = (
    select(memory)
    .where(memory.c.agent_id == bindparam("of_agent"))
    .order_by(memory.c.cycle.desc())
    .limit(bindparam("at_most"))
)


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
    return _one(await connection.execute(_ENTER, {"of_agent": agent_id, "of_cycle": cycle}))


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
    values = {
        "of_agent": agent_id,
        "of_fence": fence,
        "to_next_run_ms": next_run_ms,
        "to_status": status,
        "to_failures": failures,
        "to_error": error,
    }
    return _one(await connection.execute(_LEAVE, values))


async def taken_action(
    connection: AsyncConnection, agent_id: str, cycle: int
) -> tuple[str, TransactionRecord] | None:
    """The skill and the first transaction of a cycle, when it already asked for one."""
    keys = {"from_key": f"{agent_id}:{cycle}:", "to_key": f"{agent_id}:{cycle};"}
    row = (await connection.execute(_TAKEN, keys)).first()
    if row is None:
        return None
    action_key, *values = row
    return str(action_key).split(":")[2], record_of(values)


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
    await connection.execute(_DECIDE, entry | {"observations": observations})
    await connection.execute(_REMEMBER, entry)
    # Every cycle that is left leaves exactly one entry, so cycle numbers count the entries.
    if cycle > MEMORY_KEPT:
        await connection.execute(_FORGET, {"of_agent": agent_id, "up_to": cycle - MEMORY_KEPT})


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
    rows = await connection.execute(_MEMORY, {"of_agent": agent_id, "at_most": limit})
    return [dict(row) for row in rows.mappings()]


def _one(result: Any) -> Fields | None:
    row = result.mappings().first()
    return None if row is None else dict(row)
