"""`solward up --demo` with no network at all: an agent acts, and a restart goes on from there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.clock import wait_until
from tests.support.processes import SECRET, free_port
from tests.support.repository import ROOT

pytestmark = pytest.mark.more

# A network namespace with nothing but loopback: whatever reaches out fails at once.
OFFLINE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "offline"]


def can_unshare() -> bool:
    """Whether this machine lets us make a network namespace."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run([*OFFLINE, "true"], capture_output=True, check=False).returncode == 0


@contextmanager
def up(home: Path, port: int) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """The command, and a client once it serves; Ctrl-C at the end."""
    command = [sys.executable, "-m", "solward_cli", "up", "--demo"]
    environment = {
        "PATH": os.environ["PATH"],
        "SOLWARD_HOME": str(home),
        "API_SECRET": SECRET,
        "API_PORT": str(port),
    }
    process = subprocess.Popen(
        [*command, "--rpc-port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.parent,
    )
    headers = {"Authorization": f"Bearer {SECRET}"}
    base = f"http://127.0.0.1:{port}/api/v1"
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=10) as client:
            wait_until(lambda: process.poll() is not None or answers(client), within_s=60)
            assert process.poll() is None, process.communicate()
            yield client, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "not by a language model" in out
    assert out.rstrip().splitlines()[-1].startswith("Solward has stopped")


def answers(client: httpx.Client) -> bool:
    """Whether it serves."""
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def live_and_live_again(parent: Path) -> None:
    """Start, watch the agent act, stop, start again, and compare."""
    home, port = parent / "home", free_port()
    with up(home, port) as (client, _process):
        [agent] = client.get("/agents").json()["agents"]
        assert (agent["status"], agent["isLlm"]) == ("running", False)
        wait_until(lambda: confirmed(client), within_s=30)
        wait_until(lambda: decisions(client, agent["id"]), within_s=30)
        wallets = client.get("/wallets").json()
        records = client.get("/transactions").json()["transactions"]
        made = decisions(client, agent["id"])
        balance = client.get(f"/wallets/{agent['walletId']}/balance").json()
        assert balance["sol"] > 0
    with up(home, port) as (client, _process):
        assert client.get("/wallets").json() == wallets
        [again] = client.get("/agents").json()["agents"]
        assert (again["id"], again["status"]) == (agent["id"], "running")
        kept = client.get("/transactions?limit=500").json()["transactions"]
        assert [record for record in kept if record in records] == records
        assert client.get(f"/wallets/{agent['walletId']}/balance").json()["sol"] > 0
        wait_until(lambda: len(decisions(client, agent["id"])) > len(made), within_s=30)


def test_an_agent_acts_and_a_restart_goes_on_without_a_network(tmp_path: Path) -> None:
    if not can_unshare():
        pytest.skip("this machine gives no network namespace")
    script = (
        "import sys, pathlib; "
        "from tests.e2e.test_demo_survives import live_and_live_again; "
        "live_and_live_again(pathlib.Path(sys.argv[1]))"
    )
    command = [*OFFLINE, sys.executable, "-c", script, str(tmp_path)]
    root = str(ROOT)
    found = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def confirmed(client: httpx.Client) -> bool:
    """Whether a transaction has landed."""
    records = client.get("/transactions").json()["transactions"]
    return any(record["status"] == "confirmed" for record in records)


def decisions(client: httpx.Client, agent_id: str) -> list[dict[str, Any]]:
    """What the agent decided."""
    found: list[dict[str, Any]] = client.get(f"/agents/{agent_id}/decisions").json()["decisions"]
    return found
