"""A worker that stands still for twenty seconds amid payments, and goes on as if nothing was."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import httpx
import pytest
from tests.promises import promise
from tests.support.processes import SECRET, SOL, Node, running_cluster
from tests.support.scripts.weather import weather_process

AGENTS = 12
FROZEN_S = 20.0
LAMPORTS = SOL // 1000
# A cycle spends most of its time waiting for the ledger, so that a freeze finds many amid one.
SLOW = {"delay": 0.9}


def fenced(worker: Node) -> dict[str, int]:
    """Step -> writes that a worker was refused because others had taken over."""
    url = worker.alive.removesuffix("/readyz")
    text = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {SECRET}"}).text
    found = re.findall(r'solward_fenced_writes_total\{step="(\w+)"\} (\d+)', text)
    return {step: int(count) for step, count in found}


@promise("taken-over-cannot-store", "storm-over-processes")
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_worker_frozen_amid_payments_pays_nothing_twice_and_is_refused(
    tmp_path: Path, postgres_url: str
) -> None:
    with contextlib.ExitStack() as stack:

        def slow(ledger: str) -> str:
            return stack.enter_context(weather_process(ledger, seed=1, **SLOW))

        with running_cluster(tmp_path / "cluster", postgres_url, rpc=slow) as cluster:
            payees = cluster.hire(AGENTS)
            cluster.go_on()
            sleeper, other = cluster.workers
            doing = "SELECT count(*) FROM agents WHERE entered_ms IS NOT NULL"
            cluster.until(lambda: cluster.rows(doing)[0][0] >= AGENTS // 2, "cycles run")
            sleeper.freeze()
            began = time.monotonic()
            cluster.go_on()
            print(f"every agent went on {time.monotonic() - began:.1f} s after the freeze")
            time.sleep(max(0.0, FROZEN_S - (time.monotonic() - began)))
            sleeper.thaw()
            cluster.until(lambda: sum(fenced(sleeper).values()), "the stale worker is refused")
            cluster.go_on()
            print(f"refused to the stale worker: {fenced(sleeper)}; to the other: {fenced(other)}")
            for agent in payees:
                cluster.ask(agent, "stop")
            pending = "SELECT count(*) FROM transactions WHERE status = 'pending'"
            cluster.until(lambda: cluster.rows(pending) == [(0,)], "nothing is pending")
            for agent, payee in payees.items():
                cluster.paid_once_a_cycle(agent, payee)
            assert cluster.lamports(next(iter(payees.values()))) > 4 * LAMPORTS
