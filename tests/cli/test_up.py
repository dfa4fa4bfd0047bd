"""`solward up` in a process of its own: what it says, its end, and its next start."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.processes import ended, running, up_client, up_command

from solward.settings.access import DEVELOPMENT_SECRET

pytestmark = pytest.mark.samples("test_the_demo_acts_stops_cleanly_and_goes_on")


def confirmed(api: httpx.Client) -> list[Any]:
    """The agent's confirmed transactions, once there is one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        records = api.get("/transactions").json()["transactions"]
        found = [r for r in records if r["status"] == "confirmed" and "agentId" in r]
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(records)


def test_the_demo_acts_stops_cleanly_and_goes_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    arguments = ("up", "--demo", "--port", "0", "--rpc-port", "0")
    with running(home, *arguments) as (process, screen), up_client(screen) as api:
        for name in ("API", "Health", "JSON-RPC", "WebSocket", "Home", "Skills", "Providers"):
            assert re.search(rf"^{name}: +\S", screen, re.M), screen
        assert str(home) in screen
        first = re.search(r"^In another terminal, first: export (.+)$", screen, re.M)
        assert first is not None
        said = dict(each.split("=", 1) for each in first[1].split())
        assert said["SOLWARD_API_URL"] == str(api.base_url).removesuffix("/api/v1/")
        assert said["SOLWARD_HOME"] == str(home)
        assert "development one" in screen
        assert "not by a language model" in screen
        assert f"Bearer {DEVELOPMENT_SECRET}" in screen
        rpc = re.search(r"^JSON-RPC: +(\S+)", screen, re.M)
        assert rpc is not None
        asked = {"jsonrpc": "2.0", "id": 1, "method": "getHealth"}
        assert httpx.post(rpc[1], json=asked).json()["result"] == "ok"
        records = confirmed(api)
        (agent,) = api.get("/agents").json()["agents"]
        wallets = api.get("/wallets").json()["wallets"]
        tried = re.search(r'"(http\S+)"$', screen.strip())
        assert tried is not None
        # Its record is confirmed before its cycle is stored.
        assert wait_until(lambda: api.get(tried[1]).json()["decisions"])
        out = ended(process, signal.SIGINT)
        assert "stopped" in out.splitlines()[-1]
    with running(home, *arguments) as (process, screen), up_client(screen) as api:
        assert api.get("/wallets").json()["wallets"] == wallets
        (same,) = api.get("/agents").json()["agents"]
        assert (same["id"], same["status"]) == (agent["id"], "running")
        kept = {record["id"] for record in api.get("/transactions").json()["transactions"]}
        assert {record["id"] for record in records} <= kept
        ended(process, signal.SIGTERM)


def test_what_is_frozen_is_said_at_the_start(tmp_path: Path) -> None:
    arguments = ("up", "--port", "0", "--no-rpc", "--no-dashboard")
    with running(tmp_path / "home", *arguments) as (process, screen), up_client(screen) as api:
        # Nor is there a dashboard, or anybody who sells without the demo.
        assert not [each for each in ("unfreeze", "Dashboard", "seller") if each in screen]
        wallet = api.post("/wallets", json={"name": "cold"}).json()["walletId"]
        assert api.post("/freeze", json={"walletId": wallet}).status_code == 200
        ended(process, signal.SIGINT)
    with running(tmp_path / "home", *arguments) as (process, screen), up_client(screen) as api:
        assert "Notice: 1 wallet is frozen, until `solward unfreeze --wallet NAME`." in screen
        assert api.post("/freeze", json={"reason": "a drill"}).status_code == 200
        ended(process, signal.SIGINT)
    with running(tmp_path / "home", *arguments) as (process, screen):
        said = (
            "Notice: Transactions are frozen (a drill): nothing is signed until `solward unfreeze`."
        )
        assert said in screen
        ended(process, signal.SIGINT)


def test_a_ledger_that_does_not_answer_is_said_at_the_start(tmp_path: Path) -> None:
    away = {"SOLANA_RPC_URL": "http://127.0.0.1:1", "SOLANA_NETWORK": "devnet"}
    arguments = ("up", "--port", "0", "--no-dashboard")
    with running(tmp_path / "home", *arguments, **away) as (_process, screen):
        assert "Notice: The ledger (devnet) does not answer: reads fail, and so do new" in screen
    with running(tmp_path / "localnet", *arguments, "--no-rpc") as (process, screen):
        assert "does not answer" not in screen
        ended(process, signal.SIGINT)


def test_the_demo_prints_what_was_refused_and_what_a_person_is_asked(tmp_path: Path) -> None:
    arguments = ("up", "--demo", "--port", "0", "--no-rpc", "--dashboard-port", "0")
    # People open the pages where DASHBOARD_URL says.
    away = {"DASHBOARD_URL": "http://localhost:9/"}
    home = tmp_path / "home"
    with running(home, *arguments, **away) as (process, screen), up_client(screen) as api:
        assert process.stdout is not None
        refused, asked, where = (process.stdout.readline() for _ in range(3))
        assert "demo-agent was refused by the guardrail max_per_tx: " in refused
        (hold,) = api.get("/holds").json()["holds"]
        assert asked == f"A person is asked, nothing was sent: {hold['sentence']}\n"
        assert where.endswith(f" http://localhost:9/holds/{hold['id']}\n")
        ended(process, signal.SIGINT)
    # Where no pages are served, another service may have their port.
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = (*arguments[:-1], str(other.getsockname()[1]))
        with running(tmp_path / "home", *taken) as (process, screen):
            assert "The dashboard is not served" in screen
            assert process.stdout is not None
            assert process.stdout.readline() == asked
            assert process.stdout.readline() == where.partition(", or at ")[0] + "\n"
            ended(process, signal.SIGINT)


@pytest.mark.long
@promise("start-prints-addresses")
def test_the_server_says_where_it_and_its_health_are(tmp_path: Path) -> None:
    home = tmp_path / "home"
    start = ("server", "start", "--port", "0")
    with running(home, *start, last="Health:") as (process, said):
        server = re.search(r"^Server: +(http://127\.0\.0\.1:\d+)$", said, re.M)
        assert server is not None
        health = f"{server[1]}/api/v1/health"
        assert said.splitlines()[-1].split() == ["Health:", health]
        assert httpx.get(health).json()["status"] == "ok"
        second = subprocess.run(**up_command(home, *start), check=False)
        assert second.returncode == 2
        assert second.stderr.count("\n") == 1
        assert "is in use by process" in second.stderr
        ended(process, signal.SIGTERM)


@pytest.mark.parametrize("start", [("server", "start"), ("up", "--no-rpc")])
def test_a_taken_port_is_one_line_and_exit_code_2(tmp_path: Path, start: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = subprocess.run(**up_command(tmp_path / "home", *start, "--port", port), check=False)
    assert done.returncode == 2
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_taken_rpc_port_is_a_notice(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        arguments = ("up", "--port", "0", "--rpc-port", port)
        with running(tmp_path / "home", *arguments) as (process, screen):
            assert "not served to other clients" in screen
            assert port in screen
            ended(process, signal.SIGINT)


@pytest.mark.long
def test_a_wrong_passphrase_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    home = tmp_path / "home"
    up = ("up", "--no-rpc", "--port", "0")
    with running(home, *up, KEYSTORE_PASSPHRASE="right and long enough") as (process, _):
        ended(process, signal.SIGINT)
    wrong = up_command(home, *up, KEYSTORE_PASSPHRASE="wrong and long enough")
    done = subprocess.run(**wrong, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_a_reset_ledger_forgets_balances_and_keeps_wallets(tmp_path: Path) -> None:
    home = tmp_path / "home"
    up = ("up", "--no-rpc", "--port", "0")
    with running(home, *up) as (process, screen), up_client(screen) as api:
        wallet = api.post("/wallets", json={}).json()["walletId"]
        api.post(f"/wallets/{wallet}/airdrop", json={})
        assert api.get(f"/wallets/{wallet}/balance").json()["sol"] == 1
        ended(process, signal.SIGINT)
    with running(home, *up, "--reset") as (process, screen), up_client(screen) as api:
        assert api.get(f"/wallets/{wallet}/balance").json()["sol"] == 0
        ended(process, signal.SIGINT)
