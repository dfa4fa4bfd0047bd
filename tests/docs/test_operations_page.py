"""docs/how-to/operate.md and many-machines.md say the numbers that the code has, and their
arithmetic is right.
"""

from __future__ import annotations

import re
from math import ceil

import pytest
from tests.support.repository import ROOT

from solward.agents import queue
from solward.agents import store as jobs
from solward.database import database
from solward.serving.bounds import Bounds
from solward.vault.money.engine import CLOSE_WAIT_S, CONFIRM_WAIT_S
from solward.vault.money.send import takeover
from solward_cli.server import WORKER_PORT
from solward_server.http.body import MAX_BODY_BYTES
from solward_server.listening import MAX_CONNECTIONS, OPEN_FILES
from solward_server.resources.events import HEARTBEAT_S

PAGE = "\n".join(
    (ROOT / "docs/how-to" / name).read_text() for name in ("operate.md", "many-machines.md")
)
# Lines of a paragraph run on.
TEXT = " ".join(PAGE.split())

BOUNDS = Bounds()
LISTENER = 1
API = database._POOL + database._POOL_OVERFLOW
WORKER = API + queue._POOL + LISTENER


def row(name: str) -> list[str]:
    """The cells of the table row that begins so."""
    [found] = re.findall(rf"^\| {re.escape(name)}[^|]*\|(.+)\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def cells_below(head: str) -> list[list[str]]:
    """The rows of the table with this head, without their first cells."""
    section = PAGE.partition(head)[2].partition("\n\n")[0]
    return [line.strip("|").split("|")[1:] for line in section.splitlines()[2:]]


def numbers(cell: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r"[\d.,]*\d", cell)]


# What a cycle costs by the page's own tables: CPU in seconds, transactions, bytes.
WORKER_CPU, JOB_CPU, LITELLM_CPU = 0.57e-3, 1.5e-3, (0.56e-3, 1.00e-3)
DATABASE_CPU, COMMITS, LOG, GROWTH = 0.31e-3, (0.3, 0.7), (4.7e3, 5.3e3), 1.4e3
LEDGER_CALLS = 0.33


def times(count: float, each: tuple[float, float], unit: float = 1) -> tuple[float, ...]:
    return tuple(count * cost / unit for cost in each)


def near(cells: list[str], *expected: tuple[float, ...]) -> None:
    for cell, wanted in zip(cells, expected, strict=True):
        assert numbers(cell) == pytest.approx(list(wanted), rel=0.04), cell


def test_connections_are_what_the_pools_may_open() -> None:
    assert row("connections at most")[:2] == [str(API), str(WORKER)]
    assert f"**Connections:** {API} x APIs + {WORKER} x workers, and 10" in TEXT
    assert f"Three of each need {3 * API + 3 * WORKER + 10}" in TEXT
    [configured] = re.findall(r"max_connections=(\d+)", (ROOT / "deploy/compose.yaml").read_text())
    assert f"max_connections = {configured}" in TEXT
    assert int(configured) > 3 * API + 3 * WORKER + 10


def test_leases_heartbeats_and_waits_are_the_codes() -> None:
    assert f"renews a lease of {takeover.LEASE_S:g} s every {takeover.RENEW_S:g} s" in TEXT
    slowest, soonest = takeover.LEASE_S + takeover.RENEW_S, takeover.LEASE_S - takeover.RENEW_S
    assert f"taken over after {soonest:g} to {slowest:g} s" in TEXT
    heartbeat = f"heartbeat, every {queue.HEARTBEAT_S:g} s, is {jobs.STALLED_S:g} s old"
    assert heartbeat in TEXT
    assert queue.PRUNE_S == 60
    assert "frozen for a minute ends with 1" in TEXT
    assert f"has {BOUNDS.stop_s:g} s to finish open requests" in TEXT
    assert f"gives its running cycles {queue.GRACE_S:g} s to end" in TEXT
    assert f"waits for payments, {CONFIRM_WAIT_S:g} s at most" in TEXT
    assert f"at most {jobs.BACKLOG:,} wait as jobs" in TEXT
    assert f"--concurrency {queue.CONCURRENCY}" in TEXT
    assert f"answered within {CONFIRM_WAIT_S:g} s, and streams say something every" in TEXT
    assert f"| open connections | {BOUNDS.connections:,}, or" in TEXT
    assert f"line and headers | {BOUNDS.head_bytes // 1024} KiB |" in TEXT
    assert f"an answered request | {BOUNDS.head_s:g} s |" in TEXT
    assert f"| idle connection | {BOUNDS.idle_s:g} s |" in TEXT
    assert f"before the process closes them itself, after {BOUNDS.idle_s:g} s" in TEXT
    assert f"does not read | {BOUNDS.unread_s:g} s |" in TEXT
    assert f"limit of open files to {OPEN_FILES:,} if the hard limit allows it" in TEXT
    assert f"a hard limit of {4 * MAX_CONNECTIONS:,} or more" in TEXT
    assert f"every {HEARTBEAT_S:g} s. Bodies are {MAX_BODY_BYTES // 1024} KiB at most" in TEXT


def test_supervisors_wait_longer_than_a_process_takes_to_end() -> None:
    told = re.findall(r"wait (\d+) s for an API process and (\d+) s for a worker", TEXT)
    [(api, worker_s)] = [(int(a), int(w)) for a, w in told]
    assert api > BOUNDS.stop_s + CLOSE_WAIT_S
    assert worker_s > queue.GRACE_S + CONFIRM_WAIT_S + CLOSE_WAIT_S
    for name, most in (("solward-api.service", api), ("solward-worker@.service", worker_s)):
        assert f"TimeoutStopSec={most}\n" in (ROOT / "deploy" / name).read_text()


def test_another_worker_on_a_machine_is_given_another_port() -> None:
    assert f"solward worker --port {WORKER_PORT + 1}" in TEXT


def test_the_arithmetic_uses_the_costs_of_sizing() -> None:
    assert "| CPU per cycle | 0.05 ms, *older* | 0.57 ms |" in PAGE
    assert "litellm: a call costs 0.56 ms of a worker's CPU, and 1.00 ms of its model" in TEXT
    assert f"job queue: {JOB_CPU * 1e3:g} ms of a worker's CPU per cycle" in TEXT
    assert f"*c* x ({WORKER_CPU * 1e3:g} + {JOB_CPU * 1e3:g} ms)" in TEXT
    more = f"and {sum(LITELLM_CPU) * 1e3:.2f} ms more per cycle with litellm, model processes"
    assert more in TEXT
    for cost in (
        "| CPU | 0.31 ms |",
        "| transactions | 0.3 to 0.7, *older* |",
        "| write-ahead log | 4.7 to 5.3 KB, *older* |",
    ):
        assert cost in PAGE


def test_the_costs_are_those_of_the_benchmarks() -> None:
    measured = " ".join((ROOT / "docs" / "assurance/benchmarks.md").read_text().split())
    assert (
        "with 0.57 ms of the workers' processor time a cycle and 0.31 of PostgreSQL's" in measured
    )
    assert "lag p50 0.13 s and p99 0.29 s" in measured
    assert row("lag of a cycle, p50 and p99, 1,000 agents")[1] == "0.13 s, 0.29 s"
    assert "a call through litellm: 0.56 ms service, 1.00 ms model process" in measured
    assert "749 cycles a second" in measured
    assert f"0.02 to {LEDGER_CALLS}" in measured
    assert row("growth: decision") == ["1.4 KB"]


def test_the_arithmetic_of_a_million_agents_is_right() -> None:
    cycles = (1e6 / 600, 1e6 / 60)
    table = cells_below("| 1,000,000 agents | a cycle every 10 minutes | every minute |")
    near(table[0], *((c,) for c in cycles))
    near(row("worker cores"), *((c * WORKER_CPU,) for c in cycles))
    near(row("the job queue"), *((c * JOB_CPU,) for c in cycles))
    near(row("litellm: x"), *((c * sum(LITELLM_CPU),) for c in cycles))
    near(row("PostgreSQL cores: x"), *((c * DATABASE_CPU,) for c in cycles))
    near(row("transactions per second: x"), *(times(c, COMMITS) for c in cycles))
    log = [times(c, LOG, 1e6) + times(c * 86_400, LOG, 1e12) for c in cycles]
    near(row("write-ahead log: x"), *log)
    near(row("RPC calls per second"), *((c * LEDGER_CALLS,) for c in cycles))
    assert f"{round(cycles[1] * LEDGER_CALLS):,} RPC calls per second" in TEXT
    near(row("cycles at one time, model"), *((c * 3,) for c in cycles))
    workers = [ceil(c * 3 / queue.CONCURRENCY) for c in cycles]
    near(row("workers at 300"), *((w,) for w in workers))
    near(row("their connections"), *((w * WORKER,) for w in workers))
    near(row("growth a day: x"), *((c * 86_400 * GROWTH / 1e12,) for c in cycles))
    near(row("decisions a day"), *((c * 86_400 / 1e6,) for c in cycles))


def test_the_arithmetic_of_the_cells_is_right() -> None:
    each = (1e6 / 60 / 8, 1e6 / 60 / 10)
    cells = cells_below("| each of | 8 cells | 10 cells |")
    workers = [ceil(c * 3 / queue.CONCURRENCY) for c in each]
    near(cells[0], *((c,) for c in each))
    near(cells[1], *((c * DATABASE_CPU,) for c in each))
    near(cells[2], *(times(c, COMMITS) for c in each))
    near(cells[3], *(times(c, LOG, 1e6) for c in each))
    near(cells[4], *((w, w * WORKER) for w in workers))
