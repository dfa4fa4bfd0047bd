"""`solward up` with PostgreSQL: the ledger embedded, and a worker in the same process."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.support.processes import ended, running, up_client

pytestmark = pytest.mark.more


def test_the_demo_agent_runs_on_a_worker_of_the_same_process(
    tmp_path: Path, postgres_url: str
) -> None:
    arguments = ("up", "--demo", "--no-dashboard", "--port", "0", "--rpc-port", "0")
    with running(tmp_path / "home", *arguments, DATABASE_URL=postgres_url) as (process, screen):
        with up_client(screen) as http:
            [agent] = http.get("/agents").json()["agents"]
            deadline = time.monotonic() + 60
            decisions: list[object] = []
            while len(decisions) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.1)
                decisions = http.get(f"/agents/{agent['id']}/decisions").json()["decisions"]
            stopped = http.post(f"/agents/{agent['id']}/stop")
            assert stopped.json() == {"status": "stopped"}
        assert "Solward has stopped" in ended(process, signal.SIGTERM)
