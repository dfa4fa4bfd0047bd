"""Procrastinate's queue on PostgreSQL: every statement about cycles that wait for a worker.

A job is made in the transaction that notes it on the agent (`deferred_cycle`), so neither is ever
without the other. The functions whose names end in `_v1` are procrastinate's interface in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.vault.store import locks

QUEUE = "agents"
TASK = "solward.run_cycle"

# More rows to do only make every fetch dearer.
BACKLOG = 1_000
# Two missed heartbeats, and a half.
STALLED_S = 5.0

_MADE = text("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")

# Finding whether an agent has a job must not read the backlog, and rows of jobs live for a second.
_TUNE = (
    "CREATE INDEX IF NOT EXISTS solward_jobs_lock ON procrastinate_jobs (lock) "
    "WHERE status IN ('todo', 'doing')",
    *(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0, "
        "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000)"
        for table in ("procrastinate_jobs", "procrastinate_events")
    ),
    # A history of each job, in as many rows again, and a notification for each, where one for all
    # that are made together will do.
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

# Agents that another process works on right now are left for the next time. Procrastinate hands
# jobs out by their id, so what has been due for longest goes in first.
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

# For procrastinate's own connections. As its `procrastinate_fetch_job_v2` and `finish_job_v1`, of
# many jobs at once.
TAKE = """
WITH candidate AS (
    SELECT id FROM procrastinate_jobs AS job
    WHERE status = 'todo' AND queue_name = %(queue)s AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs AS other WHERE other.lock = job.lock
            AND (other.status = 'doing' OR (other.status = 'todo' AND other.id < job.id))
    )
    ORDER BY priority DESC, id LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE procrastinate_jobs AS job SET status = 'doing', worker_id = %(worker_id)s
    FROM candidate WHERE job.id = candidate.id RETURNING job.*
)
SELECT * FROM taken ORDER BY id
"""
END = (
    "DELETE FROM procrastinate_jobs"
    " WHERE id = ANY(%(ids)s::bigint[]) AND status IN ('todo', 'doing')"
)

_CANCEL = text(
    "SELECT procrastinate_cancel_job_v1(id, true, true) FROM procrastinate_jobs"
    " WHERE lock = :agent AND status IN ('todo', 'doing')"
)
_WORKED_ON = text(
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
# Whoever holds an agent's row works on it, and is no reason to wait: the next time finds it.
_REARM = text(
    "UPDATE agents SET deferred_cycle = NULL WHERE id IN ("
    "SELECT id FROM agents WHERE desired_state = 'running' AND next_run_ms <= :now"
    # Hashed, whatever the planner thinks of a table that is empty now and full in a second.
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
_BEATS = text(
    "SELECT count(*) FROM procrastinate_workers"
    " WHERE id = ANY(:ids) AND last_heartbeat > now() - make_interval(secs => :stalled_s)"
)


async def prepare(connection: AsyncConnection) -> None:
    """Make procrastinate's tables where there are none yet; processes may start together."""
    await locks.exclusive(connection, "jobs")
    if (await connection.execute(_MADE)).scalar_one():
        return
    schema = resources.files("procrastinate.sql").joinpath("schema.sql").read_text("utf-8")
    raw = await connection.get_raw_connection()
    driver = raw.driver_connection
    assert driver is not None
    # Many statements in one text, which only the driver itself takes.
    await driver.execute(schema)
    for statement in _TUNE:
        await connection.execute(text(statement))


async def defer_due(connection: AsyncConnection, now: int, most: int = BACKLOG) -> int:
    """Make a job for each agent that is due at `now` (ms) and has none; how many were made.

    Args:
        most: jobs that may wait in all.
    """
    given = {"now": now, "queue": QUEUE, "task": TASK, "most": most}
    return int((await connection.execute(_DEFER_DUE, given)).scalar_one())


async def defer_one(connection: AsyncConnection, agent_id: str, now: int) -> bool:
    """As `defer_due` for one agent, however many jobs wait."""
    given = {"now": now, "queue": QUEUE, "task": TASK, "agent": agent_id}
    return bool((await connection.execute(_DEFER_ONE, given)).scalar_one())


async def cancel(connection: AsyncConnection, agent_id: str) -> None:
    """Drop an agent's jobs that wait, and have its worker cancel the one that runs."""
    await connection.execute(_CANCEL, {"agent": agent_id})


async def worked_on(connection: AsyncConnection, agent_id: str) -> bool:
    """Whether a worker that lives runs a job of the agent."""
    given = {"agent": agent_id, "stalled_s": STALLED_S}
    return bool((await connection.execute(_WORKED_ON, given)).scalar_one())


async def drop_stalled(connection: AsyncConnection, agent_id: str | None = None) -> Sequence[str]:
    """Drop jobs, of one agent or all, whose worker went away or gives no sign; their locks.

    A worker that was only slow finds its job gone when it ends it. What it may still do for the
    agent, the fence decides.
    """
    given = {"agent": agent_id, "stalled_s": STALLED_S}
    return (await connection.execute(_DROP_STALLED, given)).scalars().all()


async def rearm(connection: AsyncConnection, now: int) -> Sequence[str]:
    """Let agents be deferred again whose job ended, and left their cycle as it was; their ids."""
    return (await connection.execute(_REARM, {"now": now})).scalars().all()


async def prune(connection: AsyncConnection, seconds: float) -> None:
    """Forget workers that gave no sign for so long."""
    await connection.execute(_PRUNE, {"seconds": seconds})


async def count(connection: AsyncConnection) -> dict[str, int]:
    """How many jobs of cycles there are of each status; `stalled` are those being done by a worker
    that gave no sign lately."""
    rows = await connection.execute(_COUNT, {"queue": QUEUE, "stalled_s": STALLED_S})
    return {row.status: row.jobs for row in rows}


async def beating(connection: AsyncConnection, worker_ids: Sequence[int]) -> int:
    """How many of these workers gave a sign lately."""
    given = {"ids": list(worker_ids), "stalled_s": STALLED_S}
    return int((await connection.execute(_BEATS, given)).scalar_one())
