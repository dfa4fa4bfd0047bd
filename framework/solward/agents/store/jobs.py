"""Procrastinate's queue on PostgreSQL: which agents get a job, and what its tables say.

Jobs are made, cancelled and ended by procrastinate itself (`agents/queue_placement.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.tables import agents

QUEUE = "agents"
TASK = "solward.run_cycle"

# Each fetch reads the waiting jobs, so a longer backlog makes every fetch slower.
BACKLOG = 1_000
# Two and a half heartbeats.
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
    # NOT IN is hashed, whatever the planner expects of a table that is empty now and full soon.
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
    """The psycopg connection under this one, in whose transaction it is."""
    raw = await connection.get_raw_connection()
    assert raw.driver_connection is not None
    return raw.driver_connection


async def take_due(
    connection: AsyncConnection, now: int, most: int, agent_id: str | None = None
) -> list[tuple[str, int]]:
    """Mark agents that are due at `now` (ms) and have no job; the caller makes their jobs in the
    same transaction.

    Args:
        agent_id: this one alone.

    Returns:
        Agents and the numbers of their cycles, those due longest first.
    """
    statement = _DUE if agent_id is None else _DUE.where(agents.c.id == agent_id)
    rows = (await connection.execute(statement, {"now": now, "most": most})).all()
    ids = [row.id for row in rows]
    mark = update(agents).where(agents.c.id.in_(ids)).values(deferred_cycle=agents.c.cycle_no)
    if ids:
        await connection.execute(mark)
    return [(row.id, row.cycle_no) for row in rows]


async def count_waiting(connection: AsyncConnection) -> int:
    """How many jobs wait for a worker."""
    return int((await connection.execute(_WAITING, {"queue": QUEUE})).scalar_one())


async def jobs_of(connection: AsyncConnection, agent_id: str) -> dict[int, bool]:
    """The ids of an agent's jobs that wait or run, and whether a worker with a recent heartbeat
    runs it."""
    parameters = {"agent": agent_id, "stalled_s": STALLED_S}
    return {row.id: row.runs for row in await connection.execute(_OF_AGENT, parameters)}


async def rearm(connection: AsyncConnection, now: int) -> Sequence[str]:
    """Allow agents to be deferred again whose job ended without leaving the cycle; their ids."""
    return (await connection.execute(_REARM, {"now": now})).scalars().all()


async def count(connection: AsyncConnection) -> dict[str, int]:
    """Number of cycles' jobs by status; `stalled`: running, but without a recent heartbeat."""
    rows = await connection.execute(_COUNT, {"queue": QUEUE, "stalled_s": STALLED_S})
    return {row.status: row.jobs for row in rows}


async def count_workers(connection: AsyncConnection, ids: Sequence[int] | None = None) -> int:
    """How many of the queue's workers have a recent heartbeat.

    Args:
        ids: of these alone.
    """
    parameters = {"ids": None if ids is None else list(ids), "stalled_s": STALLED_S}
    return int((await connection.execute(_WORKERS, parameters)).scalar_one())
