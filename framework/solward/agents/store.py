"""SQL statements on agents, decisions, memory and usage and, on PostgreSQL, on the queue of cycles
and its tables. `solward.agents.remember` has the statements of every cycle.

Each function works inside the caller's transaction. Rows are dicts with the columns' names. Only
procrastinate itself creates, cancels and ends jobs (`agents/queue.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, insert, or_, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents.agent import TokensUsed
from solward.database.prepared import Prepared
from solward.database.records import insert_or_set, new_value
from solward.database.tables import agent_usage, agents, decisions, memory
from solward.resources.agents import MEMORY_KEPT

Fields = dict[str, Any]

USAGE_HOURS = 24

_RUNNING = "running"

_MEMORY = (
    select(*(column for column in memory.c if column is not memory.c.agent_id))
    .where(memory.c.agent_id == bindparam("of_agent"))
    .order_by(memory.c.cycle.desc())
    .limit(bindparam("at_most"))
)
_BY_STATUS = Prepared(
    select(agents.c.status, func.count().label("agents")).group_by(agents.c.status)
)


async def insert_agent(connection: AsyncConnection, fields: Mapping[str, Any]) -> None:
    """Store a new agent; `fields` are the columns of the agents table."""
    await connection.execute(insert(agents).values(**fields))


async def get_agent(
    connection: AsyncConnection, agent_id: str, *, lock: bool = False
) -> Fields | None:
    """Return one agent, or None; `lock` locks its row until the transaction ends."""
    statement = select(agents).where(agents.c.id == agent_id)
    if lock:
        statement = statement.with_for_update()
    return _one_row(await connection.execute(statement))


async def list_agents(connection: AsyncConnection, wallet_id: str | None = None) -> list[Fields]:
    """Return the agents of a wallet, or all for None; oldest first."""
    statement = select(agents).order_by(agents.c.created_ms, agents.c.id)
    if wallet_id is not None:
        statement = statement.where(agents.c.wallet_id == wallet_id)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def providers_to_run(connection: AsyncConnection) -> set[str]:
    """Return the providers of the agents that should run."""
    statement = select(agents.c.llm_provider).where(agents.c.desired_state == _RUNNING).distinct()
    return set(await connection.scalars(statement))


async def agents_to_run(connection: AsyncConnection) -> list[tuple[str, int, int | None]]:
    """Return id, cycle number and due time (ms or None) of every agent that should run."""
    statement = select(agents.c.id, agents.c.cycle_no, agents.c.next_run_ms).where(
        agents.c.desired_state == _RUNNING
    )
    return [(row.id, row.cycle_no, row.next_run_ms) for row in await connection.execute(statement)]


async def update_agent(
    connection: AsyncConnection, agent_id: str, fields: Mapping[str, Any]
) -> Fields | None:
    """Change columns of an agent; return the new row, or None if the agent does not exist."""
    statement = update(agents).where(agents.c.id == agent_id).values(**fields).returning(agents)
    return _one_row(await connection.execute(statement))


async def running_cycle(connection: AsyncConnection, agent_id: str) -> tuple[int, int] | None:
    """Return the fence of the running cycle and the time it was entered (ms), or None."""
    statement = select(agents.c.fence, agents.c.entered_ms).where(
        agents.c.id == agent_id, agents.c.entered_ms.is_not(None)
    )
    row = (await connection.execute(statement)).first()
    return None if row is None else (row.fence, row.entered_ms)


async def revoke_fence(connection: AsyncConnection, agent_id: str, fence: int) -> bool:
    """Revoke the fence of a run whose process is dead; return False if it was already lost.

    If that process continues, it can neither spend for the agent nor end the cycle.
    """
    statement = (
        update(agents)
        .where(agents.c.id == agent_id, agents.c.fence == fence, agents.c.entered_ms.is_not(None))
        .values(fence=agents.c.fence + 1, entered_ms=None, deferred_cycle=None)
    )
    return (await connection.execute(statement)).rowcount > 0


async def delete_agent(connection: AsyncConnection, agent_id: str) -> bool:
    """Delete an agent with its decisions, memory and usage; its transactions stay."""
    for table in (decisions, memory, agent_usage):
        await connection.execute(delete(table).where(table.c.agent_id == agent_id))
    removed = await connection.execute(delete(agents).where(agents.c.id == agent_id))
    return removed.rowcount > 0


async def count_by_status(connection: AsyncConnection) -> dict[str, int]:
    """Count agents by status."""
    return {row.status: row.agents for row in await _BY_STATUS.all(connection)}


async def list_decisions(
    connection: AsyncConnection, agent_id: str, limit: int, before: int | None = None
) -> list[Fields]:
    """Return an agent's decisions in cycles before the cycle `before`, newest first."""
    statement = select(decisions).where(decisions.c.agent_id == agent_id)
    if before is not None:
        statement = statement.where(decisions.c.cycle < before)
    rows = await connection.execute(statement.order_by(decisions.c.cycle.desc()).limit(limit))
    return [dict(row) for row in rows.mappings()]


async def list_memory(
    connection: AsyncConnection, agent_id: str, limit: int = MEMORY_KEPT
) -> list[Fields]:
    """Return an agent's memory entries, newest first."""
    rows = await connection.execute(_MEMORY, {"of_agent": agent_id, "at_most": limit})
    return [dict(row) for row in rows.mappings()]


async def usage_by_agent(
    connection: AsyncConnection, agent_ids: Sequence[str], hour: int
) -> dict[str, TokensUsed]:
    """Return agents' usage in `hour` and the 24 hours before; agents without usage are left out."""
    table = agent_usage.c
    statement = (
        select(
            table.agent_id,
            func.sum(table.tokens),
            func.sum(table.cost_nanousd),
            func.sum(table.unpriced_tokens),
        )
        .where(table.agent_id.in_(agent_ids), table.hour >= hour - USAGE_HOURS)
        .group_by(table.agent_id)
    )
    rows = await connection.execute(statement)
    return {agent_id: TokensUsed(*map(int, sums)) for agent_id, *sums in rows}


_WITH_OLD_USAGE = (
    select(agents.c.id)
    .where(
        exists().where(
            agent_usage.c.agent_id == agents.c.id, agent_usage.c.hour < bindparam("b_hour")
        )
    )
    .limit(bindparam("b_count"))
)
_OLD_USAGE = (
    select(agent_usage.c.agent_id, agent_usage.c.hour)
    .where(
        agent_usage.c.agent_id.in_(bindparam("b_agents", expanding=True)),
        agent_usage.c.hour < bindparam("b_hour"),
    )
    .limit(bindparam("b_count"))
)
_FORGET_USAGE = delete(agent_usage).where(
    tuple_(agent_usage.c.agent_id, agent_usage.c.hour).in_(_OLD_USAGE)
)


async def find_old_usage(connection: AsyncConnection, hour: int, count: int) -> list[str]:
    """Return up to `count` agents that have usage before `hour` (since the epoch)."""
    return list(await connection.scalars(_WITH_OLD_USAGE, {"b_hour": hour, "b_count": count}))


async def forget_usage(
    connection: AsyncConnection, agent_ids: Sequence[str], hour: int, count: int
) -> int:
    """Delete up to `count` rows of usage before `hour` (since the epoch); return their number."""
    parameters = {"b_agents": list(agent_ids), "b_hour": hour, "b_count": count}
    return int((await connection.execute(_FORGET_USAGE, parameters)).rowcount)


async def lock_agents(connection: AsyncConnection, agent_ids: Sequence[str]) -> None:
    """Lock agents until the transaction ends."""
    statement = select(agents.c.id).where(agents.c.id.in_(agent_ids)).order_by(agents.c.id)
    await connection.execute(statement.with_for_update(key_share=True))


_ADD_USAGE = insert_or_set(
    agent_usage,
    ("agent_id", "hour"),
    **{
        name: agent_usage.c[name] + new_value(agent_usage, name)
        for name in ("tokens", "cost_nanousd", "unpriced_tokens")
    },
)


async def add_usage(connection: AsyncConnection, rows: Sequence[Fields]) -> None:
    """Add rows with the columns of `agent_usage`; negative numbers reduce the usage."""
    if not rows:
        return
    # Always in the same order, so that two processes cannot deadlock.
    await connection.execute(_ADD_USAGE, sorted(rows, key=itemgetter("agent_id", "hour")))


def _one_row(result: Any) -> Fields | None:
    row = result.mappings().first()
    return None if row is None else dict(row)


QUEUE = "agents"
TASK = "solward.run_cycle"

# Each fetch reads all waiting jobs, so a longer backlog makes every fetch slower.
BACKLOG = 1_000
# This is the time of two and a half heartbeats of a worker.
STALLED_S = 5.0

# Rows that another process has locked wait for the next sweep. Procrastinate fetches jobs by id, so
# the cycles due longest come first.
_DUE = (
    select(agents.c.id, agents.c.cycle_no)
    .where(
        agents.c.desired_state == "running",
        agents.c.next_run_ms <= bindparam("now"),
        or_(agents.c.deferred_cycle.is_(None), agents.c.deferred_cycle < agents.c.cycle_no),
    )
    .order_by(agents.c.next_run_ms, agents.c.id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_WAITING = text(
    "SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo' AND queue_name = :queue"
)
_OF_AGENT = text(
    "SELECT job.id, coalesce(job.status = 'doing'"
    " AND worker.last_heartbeat > now() - make_interval(secs => :stalled_s), false) AS runs"
    " FROM procrastinate_jobs AS job"
    " LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id"
    " WHERE job.lock = :agent AND job.status IN ('todo', 'doing')"
)
# Rows that another process has locked wait for the next run.
_REARM = text(
    "UPDATE agents SET deferred_cycle = NULL WHERE id IN ("
    "SELECT id FROM agents WHERE desired_state = 'running' AND next_run_ms <= :now"
    # NOT IN is always hashed, even if the planner expects the table, which fills soon, to be empty.
    " AND deferred_cycle = cycle_no AND id NOT IN (SELECT job.lock FROM procrastinate_jobs AS job"
    " WHERE job.lock IS NOT NULL AND job.status IN ('todo', 'doing'))"
    " ORDER BY id FOR UPDATE SKIP LOCKED) RETURNING id"
)
_COUNT = text(
    "SELECT CASE WHEN status = 'doing' AND NOT EXISTS ("
    "SELECT 1 FROM procrastinate_workers AS worker WHERE worker.id = job.worker_id"
    " AND worker.last_heartbeat > now() - make_interval(secs => :stalled_s)"
    ") THEN 'stalled' ELSE status::text END AS status, count(*) AS jobs"
    " FROM procrastinate_jobs AS job WHERE queue_name = :queue GROUP BY 1"
)
_WORKERS = text(
    "SELECT count(*) FROM procrastinate_workers"
    " WHERE last_heartbeat > now() - make_interval(secs => :stalled_s)"
    " AND (CAST(:ids AS bigint[]) IS NULL OR id = ANY(:ids))"
)


async def driver(connection: AsyncConnection) -> Any:
    """Return the psycopg connection under this one; it shares the transaction."""
    raw = await connection.get_raw_connection()
    assert raw.driver_connection is not None
    return raw.driver_connection


async def take_due(
    connection: AsyncConnection, now: int, most: int, agent_id: str | None = None
) -> list[tuple[str, int]]:
    """Select the agents that are due at `now` (ms) and have no job, and mark that they have a job.

    The caller makes their jobs in the same transaction.

    Returns:
        Agents and the numbers of their cycles, the longest due first.
    """
    statement = _DUE if agent_id is None else _DUE.where(agents.c.id == agent_id)
    rows = (await connection.execute(statement, {"now": now, "most": most})).all()
    ids = [row.id for row in rows]
    mark = update(agents).where(agents.c.id.in_(ids)).values(deferred_cycle=agents.c.cycle_no)
    if ids:
        await connection.execute(mark)
    return [(row.id, row.cycle_no) for row in rows]


async def count_waiting(connection: AsyncConnection) -> int:
    """Count the jobs that wait for a worker."""
    return int((await connection.execute(_WAITING, {"queue": QUEUE})).scalar_one())


async def jobs_of(connection: AsyncConnection, agent_id: str) -> dict[int, bool]:
    """Return job id -> whether a live worker runs it, for an agent's waiting and running jobs."""
    parameters = {"agent": agent_id, "stalled_s": STALLED_S}
    return {row.id: row.runs for row in await connection.execute(_OF_AGENT, parameters)}


async def allow_new_jobs(connection: AsyncConnection, now: int) -> Sequence[str]:
    """Allow a new job for agents whose job ended inside a cycle; return their ids."""
    return (await connection.execute(_REARM, {"now": now})).scalars().all()


async def count_jobs(connection: AsyncConnection) -> dict[str, int]:
    """Count jobs by status; a `stalled` job is running, but has no recent heartbeat."""
    rows = await connection.execute(_COUNT, {"queue": QUEUE, "stalled_s": STALLED_S})
    return {row.status: row.jobs for row in rows}


async def count_workers(connection: AsyncConnection, ids: Sequence[int] | None = None) -> int:
    """Count the queue's workers with a recent heartbeat, among `ids` if they are given."""
    parameters = {"ids": None if ids is None else list(ids), "stalled_s": STALLED_S}
    return int((await connection.execute(_WORKERS, parameters)).scalar_one())
