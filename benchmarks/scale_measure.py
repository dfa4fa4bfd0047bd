"""What a cluster had used up to now, and what it did between two such readings."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
from benchmarks.load import SECRET
from benchmarks.scale_cluster import Running
from psycopg import sql

_TABLES = (
    "agents",
    "decisions",
    "memory",
    "audit",
    "audit_heads",
    "procrastinate_jobs",
    "procrastinate_events",
)
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_BUCKET = re.compile(r'^solward_agent_cycle_lag_seconds_bucket\{le="([^"]+)"\} (\S+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters at one moment.

    Attributes:
        cycles: cycles left of each agent.
        cpu_s: processor seconds of each part: workers, api, ledger, the workers' plugin hosts,
            postgres.
        lags: for each bound in seconds, cycles that began at most so late.
        transactions: committed in the database.
        wal: bytes written ahead.
        tables: rows and bytes, indexes included.
        rss_mb: resident memory of each worker.
        connections: to the database.
    """

    at_s: float
    cycles: Mapping[str, int]
    cpu_s: Mapping[str, float]
    lags: Mapping[float, float]
    transactions: int
    wal: int
    tables: Mapping[str, tuple[int, int]]
    rss_mb: tuple[float, ...]
    connections: int


def read(running: Running, agents: list[str]) -> Reading:
    """The counters now."""
    with psycopg.connect(running.dsn) as connection:
        at_s = time.perf_counter()
        cpu_s = {part: sum(map(_cpu_s, pids)) for part, pids in running.pids.items()}
        cpu_s["plugin hosts"] = sum(map(_children_cpu_s, running.pids["workers"]))
        cpu_s["postgres"] = _tree_cpu_s(_postmaster(connection))
        return Reading(
            at_s=at_s,
            cycles=_cycles(connection, agents),
            cpu_s=cpu_s,
            lags=_lags(running.workers),
            transactions=_number(
                connection,
                "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()",
            ),
            wal=_number(connection, "SELECT wal_bytes FROM pg_stat_wal"),
            tables={name: _table(connection, name) for name in _TABLES},
            rss_mb=tuple(map(rss_mb, running.pids["workers"])),
            # Without this one.
            connections=_number(
                connection,
                "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()",
            ),
        )


def lag_s(before: Reading, after: Reading, share: float) -> float:
    """How late that share of the cycles between two readings began at most, within its bucket as
    if they were spread evenly there."""
    counted = {bound: after.lags[bound] - before.lags.get(bound, 0.0) for bound in after.lags}
    wanted = share * max(counted.values(), default=0.0)
    lower, below = 0.0, 0.0
    for bound, count in sorted(counted.items()):
        if count >= wanted and count > below:
            if bound == float("inf"):
                return lower
            return lower + (bound - lower) * (wanted - below) / (count - below)
        lower, below = bound, count
    return 0.0


def rss_mb(pid: int) -> float:
    """A process's resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cycles(connection: psycopg.Connection, agents: list[str]) -> dict[str, int]:
    rows = connection.execute("SELECT id, cycle_no FROM agents WHERE id = ANY(%s)", (agents,))
    return {str(agent): int(cycle) for agent, cycle in rows.fetchall()}


def _lags(workers: tuple[str, ...]) -> dict[float, float]:
    found: dict[float, float] = {}
    for url in workers:
        headers = {"Authorization": f"Bearer {SECRET}"}
        answer = httpx.get(f"{url}/metrics", headers=headers, timeout=30).raise_for_status()
        for bound, count in _BUCKET.findall(answer.text):
            found[float(bound)] = found.get(float(bound), 0.0) + float(count)
    return found


def _number(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def _table(connection: psycopg.Connection, name: str) -> tuple[int, int]:
    query = sql.SQL("SELECT count(*), pg_total_relation_size({name}) FROM {table}")
    filled = query.format(name=sql.Literal(name), table=sql.Identifier(name))
    row = connection.execute(filled).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _postmaster(connection: psycopg.Connection) -> int:
    row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return int(Path(row[0], "postmaster.pid").read_text().split()[0])


def _cpu_s(pid: int) -> float:
    user, system, *_children = _times(pid)
    return (user + system) * _TICK_S


def _tree_cpu_s(pid: int) -> float:
    """A process with its children, those that ended included."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(_times(pid)) * _TICK_S + sum(map(_cpu_s, map(int, children)))


def _children_cpu_s(pid: int) -> float:
    """The processes below one, however deep, that run."""
    below = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for each in below for child in each.read_text().split()]
    return sum(_cpu_s(child) + _children_cpu_s(child) for child in children)


def _times(pid: int) -> list[int]:
    # What is in brackets may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]
