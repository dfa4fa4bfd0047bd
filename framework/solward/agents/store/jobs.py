"""Procrastinate's queue on PostgreSQL: every statement about cycles that wait for a worker.

A job and its mark on the agent's row (`deferred_cycle`) commit in one transaction. The functions
whose names end in `_v1` are procrastinate's interface in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import lock_exclusive

QUEUE = "agents"
TASK = "solward.run_cycle"

# Each fetch reads the waiting jobs, so a longer backlog makes every fetch slower.
BACKLOG = 1_000
# Two and a half heartbeats.
STALLED_S = 5.0

_EXISTS = text("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")

# Finding an agent's job must not read the whole backlog. Rows of jobs live for a second, so dead
# ones pile up unless they are vacuumed early.
_TUNE = (
    "CREATE INDEX IF NOT EXISTS solward_jobs_lock ON procrastinate_jobs (lock) "
    "WHERE status IN ('todo', 'doing')",
    *(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0, "
        "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000)"
        for table in ("procrastinate_jobs", "procrastinate_events")
    ),
    # The triggers write a history in as many rows again, and notify once for each job instead of
    # once for each batch.
    *(
        f"ALTER TABLE procrastinate_jobs DISABLE TRIGGER procrastinate_{trigger}_v1"
        for trigger in (
            "trigger_status_events_insert",
            "trigger_status_events_update",
            "trigger_abort_requested_events",
            "jobs_notify_queue_job_inserted",
        )
    ),
)

# Rows that another process has locked wait for the next sweep. Procrastinate fetches jobs by id, so
# the cycles due longest are inserted first.
_DEFER = """
WITH due AS MATERIALIZED (
    SELECT id FROM agents
    WHERE desired_state = 'running' AND next_run_ms <= :now
        AND (deferred_cycle IS NULL OR deferred_cycle < cycle_no) {only}
    ORDER BY next_run_ms, id
    LIMIT {room}
    FOR UPDATE SKIP LOCKED
), marked AS (
    UPDATE agents SET deferred_cycle = agents.cycle_no FROM due WHERE agents.id = due.id
    RETURNING agents.id, agents.cycle_no, agents.next_run_ms
), made AS MATERIALIZED (
    SELECT array_length(procrastinate_defer_jobs_v1(array_agg(
        ROW(:queue, :task, 0, id, NULL, jsonb_build_object('agent_id', id, 'cycle', cycle_no), NULL)
        ::procrastinate_job_to_defer_v1 ORDER BY next_run_ms, id
    )), 1) AS jobs FROM marked
)
SELECT coalesce(jobs, 0), CASE WHEN jobs > 0 THEN pg_notify(
    'procrastinate_queue_v1#' || :queue, '{{"type": "job_inserted", "job_id": 0}}'
)::text END FROM made
"""
_ROOM = (
    "greatest(0, :most - (SELECT count(*) FROM procrastinate_jobs"
    " WHERE status = 'todo' AND queue_name = :queue))"
)
_DEFER_DUE = text(_DEFER.format(only="", room=_ROOM))
_DEFER_ONE = text(_DEFER.format(only="AND id = :agent", room="1"))

# For procrastinate's own connections: its `procrastinate_fetch_job_v2` and `finish_job_v1`, for
# many jobs at once.
FETCH = """
WITH candidate AS (
    SELECT id FROM procrastinate_jobs AS job
    WHERE status = 'todo' AND queue_name = %(queue)s AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs AS other WHERE other.lock = job.lock
            AND (other.status = 'doing' OR (other.status = 'todo' AND other.id < job.id))
    )
    ORDER BY priority DESC, id LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
), fetched AS (
    UPDATE procrastinate_jobs AS job SET status = 'doing', worker_id = %(worker_id)s
    FROM candidate WHERE job.id = candidate.id RETURNING job.*
)
SELECT * FROM fetched ORDER BY id
"""
FINISH = (
    "DELETE FROM procrastinate_jobs"
    " WHERE id = ANY(%(ids)s::bigint[]) AND status IN ('todo', 'doing')"
)

_CANCEL = text(
    "SELECT procrastinate_cancel_job_v1(id, true, true) FROM procrastinate_jobs"
    " WHERE lock = :agent AND status IN ('todo', 'doing')"
)
_HAS_LIVE_WORKER = text(
    "SELECT EXISTS (SELECT 1 FROM procrastinate_jobs AS job"
    " JOIN procrastinate_workers AS worker ON worker.id = job.worker_id"
    " WHERE job.lock = :agent AND job.status = 'doing'"
    " AND worker.last_heartbeat > now() - make_interval(secs => :stalled_s))"
)
_DROP_STALLED = text(
    "DELETE FROM procrastinate_jobs AS job WHERE job.status = 'doing'"
    " AND (CAST(:agent AS text) IS NULL OR job.lock = :agent)"
    " AND NOT EXISTS (SELECT 1 FROM procrastinate_workers AS worker"
    " WHERE worker.id = job.worker_id"
    " AND worker.last_heartbeat > now() - make_interval(secs => :stalled_s)) RETURNING job.lock"
)
_PRUNE = text("SELECT procrastinate_prune_stalled_workers_v1(:seconds)")
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
_LIVE_WORKERS = text(
    "SELECT count(*) FROM procrastinate_workers"
    " WHERE id = ANY(:ids) AND last_heartbeat > now() - make_interval(secs => :stalled_s)"
)

_WORKERS = text(
    "SELECT count(*) FROM procrastinate_workers"
    " WHERE last_heartbeat > now() - make_interval(secs => :stalled_s)"
)


async def prepare(connection: AsyncConnection) -> None:
    """Create procrastinate's tables where they are missing; processes may start together."""
    await lock_exclusive(connection, "jobs")
    if (await connection.execute(_EXISTS)).scalar_one():
        return
    schema = resources.files("procrastinate.sql").joinpath("schema.sql").read_text("utf-8")
    raw = await connection.get_raw_connection()
    driver = raw.driver_connection
    assert driver is not None
    # Many statements in one text, which only the driver itself accepts.
    await driver.execute(schema)
    for statement in _TUNE:
        await connection.execute(text(statement))


async def defer_due(connection: AsyncConnection, now: int, most: int = BACKLOG) -> int:
    """Create a job for each agent that is due at `now` (ms) and has none; returns their number.

    Args:
        most: jobs that may wait in all.
    """
    parameters = {"now": now, "queue": QUEUE, "task": TASK, "most": most}
    return int((await connection.execute(_DEFER_DUE, parameters)).scalar_one())


async def defer_one(connection: AsyncConnection, agent_id: str, now: int) -> bool:
    """As `defer_due` for one agent, however many jobs wait."""
    parameters = {"now": now, "queue": QUEUE, "task": TASK, "agent": agent_id}
    return bool((await connection.execute(_DEFER_ONE, parameters)).scalar_one())


async def cancel(connection: AsyncConnection, agent_id: str) -> None:
    """Drop an agent's waiting jobs, and let its worker cancel the running one."""
    await connection.execute(_CANCEL, {"agent": agent_id})


async def has_live_worker(connection: AsyncConnection, agent_id: str) -> bool:
    """Whether a worker with a recent heartbeat runs a job of the agent."""
    parameters = {"agent": agent_id, "stalled_s": STALLED_S}
    return bool((await connection.execute(_HAS_LIVE_WORKER, parameters)).scalar_one())


async def drop_stalled(connection: AsyncConnection, agent_id: str | None = None) -> Sequence[str]:
    """Drop running jobs, of one agent or all, whose worker has no recent heartbeat.

    A worker that was only slow finds its job gone when it finishes it; the fence decides what it
    may still do for the agent.

    Returns:
        The jobs' agents.
    """
    parameters = {"agent": agent_id, "stalled_s": STALLED_S}
    return (await connection.execute(_DROP_STALLED, parameters)).scalars().all()


async def rearm(connection: AsyncConnection, now: int) -> Sequence[str]:
    """Allow agents to be deferred again whose job ended without leaving the cycle; their ids."""
    return (await connection.execute(_REARM, {"now": now})).scalars().all()


async def prune_workers(connection: AsyncConnection, seconds: float) -> None:
    """Delete workers without a heartbeat for `seconds`."""
    await connection.execute(_PRUNE, {"seconds": seconds})


async def count(connection: AsyncConnection) -> dict[str, int]:
    """Number of cycles' jobs by status; `stalled`: running, but without a recent heartbeat."""
    rows = await connection.execute(_COUNT, {"queue": QUEUE, "stalled_s": STALLED_S})
    return {row.status: row.jobs for row in rows}


async def count_workers(connection: AsyncConnection) -> int:
    """How many of the queue's workers have a recent heartbeat."""
    return int((await connection.execute(_WORKERS, {"stalled_s": STALLED_S})).scalar_one())


async def live_workers(connection: AsyncConnection, worker_ids: Sequence[int]) -> int:
    """How many of these workers have a recent heartbeat."""
    parameters = {"ids": list(worker_ids), "stalled_s": STALLED_S}
    return int((await connection.execute(_LIVE_WORKERS, parameters)).scalar_one())
