"""Services in processes of their own: one, several on one PostgreSQL, killed, frozen, confined."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import structlog
from tests.support import database as databases
from tests.support.localnet import localnet_process
from tests.support.repository import ROOT

from solward.settings.access import DEVELOPMENT_SECRET
from solward.telemetry.logs import configure

# A service in a process of its own that can be killed, and a client that talks to it.

ARMED = Path(__file__).with_name("scripts") / "service.py"
# Made once: reading the system's certificates for each client takes 20 ms of processor time, which
# the process that starts up beside it could use.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
SECRET = "a-secret-for-tests-of-at-least-32-bytes"


# Below those that Linux gives to connections which name none (`ip_local_port_range`): a service
# that is killed listens on its port again, and no connection may have got it meanwhile.
_PORTS = range(20_000, 32_768)


def free_port() -> int:
    """A port nothing listens on, and that no connection gets by itself."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Service:
    """One SOLWARD_HOME, and the process that serves it now."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/api/v1"
        self.environment = {
            "PATH": os.environ["PATH"],
            "SOLWARD_HOME": str(home),
            "API_SECRET": SECRET,
            "MAX_TRANSACTIONS_PER_MINUTE": "100000",
        } | environment
        self.environment |= databases.environment(home, environment)
        self.process: subprocess.Popen[bytes] | None = None
        self.python = sys.executable
        self.program: tuple[str, ...] = ("-m", "solward_cli")
        self.starting: tuple[str, ...] = ("server", "start")
        self.alive = f"{self.url}/health"
        self.log = home.parent / "service.log"
        self.patience_s = 60.0

    def start(self, armed: str | None = None) -> Service:
        """Start and wait until it serves."""
        self.launch(armed)
        return self.serving()

    def launch(self, armed: str | None = None) -> None:
        """Start and do not wait."""
        command = [self.python, *self.program]
        if armed is not None:
            command = [self.python, str(ARMED), armed]
        log = self.log.open("ab")
        self.process = subprocess.Popen(
            [*command, *self.starting, "--port", str(self.port)],
            env=self.environment,
            stdout=log,
            stderr=log,
            cwd=self.home.parent,
        )
        log.close()

    def serving(self) -> Service:
        """Wait until what was launched serves."""
        assert self.process is not None
        deadline = time.monotonic() + self.patience_s
        with httpx.Client(verify=NO_TLS, timeout=2) as client:
            while time.monotonic() < deadline:
                if self.process.poll() is not None:
                    break
                try:
                    if client.get(self.alive).status_code == 200:
                        return self
                except httpx.TransportError:
                    pass
                time.sleep(0.05)
        raise AssertionError(self.log.read_text()[-4000:])

    def wait_killed(self) -> None:
        """Wait for the process to be gone by its own SIGKILL."""
        assert self.process is not None
        assert self.process.wait(30) == -signal.SIGKILL

    def stop(self, with_signal: int = signal.SIGTERM) -> int:
        """End the process and wait for it."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        return self.process.wait(30)

    def client(self, token: str = SECRET, **options: Any) -> httpx.Client:
        """An HTTP client with a bearer token."""
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            verify=NO_TLS,
            **options,
        )


def funded_wallet(client: httpx.Client, name: str, sol: int) -> str:
    """A new wallet holding `sol` SOL, two at a time from the faucet."""
    wallet = str(client.post("/wallets", json={"name": name}).json()["walletId"])
    while sol > 0:
        part = min(sol, 2)
        answer = client.post(f"/wallets/{wallet}/airdrop", json={"amount": part})
        assert answer.status_code == 200, answer.text
        sol -= part
    return wallet


def sol_of(client: httpx.Client, wallet: str) -> Decimal:
    """A wallet's balance as the ledger has it."""
    answer = client.get(f"/wallets/{wallet}/balance")
    return Decimal(str(answer.json()["sol"]))


# The command in a process of its own, read until it says it is up.


def up_command(home: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "solward_cli", *arguments],
        "env": {"PATH": os.environ["PATH"], "SOLWARD_HOME": str(home)}
        | databases.database_of(home)
        | environment,
        "cwd": home.parent,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


@contextlib.contextmanager
def running(
    home: Path, *arguments: str, last: str = "Try:", **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process once it has printed the line that starts with `last`, and what it printed."""
    process = subprocess.Popen(**up_command(home, *arguments, **environment))
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(last):
                break
        else:
            raise AssertionError(process.stderr.read())
        yield process, "".join(lines)
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()
        process.stderr.close()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Signal it and wait for a clean end; its last output."""
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    return out


def up_client(screen: str) -> httpx.Client:
    found = re.search(r"^API: +(\S+)", screen, re.M)
    assert found is not None
    headers = {"Authorization": f"Bearer {DEVELOPMENT_SECRET}"}
    return httpx.Client(base_url=found[1], headers=headers, timeout=30)


# Many processes on one PostgreSQL and one ledger: started, killed, frozen and restarted at will.

SOL = 10**9
WIDE = {
    "maxSolPerTransaction": 2,
    "maxTransactionsPerMinute": 100_000,
    "dailySpendingLimitSol": 100_000,
}


class Node(Service):
    """An API process or a worker; `environment` may be changed before each start."""

    def __init__(self, folder: Path, name: str, kind: str, **environment: str) -> None:
        super().__init__(folder / "home", **environment)
        # A machine on which everything restarts is slow.
        self.patience_s = 180.0
        self.name = name
        self.kind = kind
        self.log = folder / f"{name}.log"
        self.program = (str(ARMED), "rules")
        if kind == "worker":
            self.starting = ("worker",)
            self.alive = f"http://127.0.0.1:{self.port}/readyz"

    @property
    def runs(self) -> bool:
        """Whether its process is there; a frozen one is."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait for it to be gone."""
        self.stop(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@dataclass
class Cluster:
    """A ledger, a database, API processes and workers.

    Attributes:
        ledger: the address of the ledger's own RPC.
        database: the DATABASE_URL.
        environment: what every process is started with.
    """

    folder: Path
    ledger: str
    database: str
    environment: dict[str, str]
    apis: list[Node] = field(default_factory=list)
    workers: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        """Every process, API first."""
        return [*self.apis, *self.workers]

    def add(self, apis: int = 0, workers: int = 0, **environment: str) -> None:
        """So many processes more, started together and ready."""
        added = [self._node(self.apis, "api", environment) for _ in range(apis)]
        added += [self._node(self.workers, "worker", environment) for _ in range(workers)]
        for node in added:
            node.launch()
        for node in added:
            node.serving()

    def client(self, api: int = 0, **options: Any) -> httpx.Client:
        """The admin's HTTP client of an API process."""
        return self.apis[api].client(**options)

    def wallet(self, name: str, sol: Decimal | int = 0) -> tuple[str, str]:
        """A new wallet and its address, with SOL the ledger itself gave it."""
        with self.client() as client:
            answer = client.post("/wallets", json={"name": name})
            assert answer.status_code == 200, answer.text
            made = answer.json()
        if sol:
            self.fund(made["address"], int(sol * SOL))
        return made["walletId"], made["address"]

    def agent(self, name: str, wallet: str, strategy: str, **changes: Any) -> str:
        """A new agent of the rule-based provider, not started."""
        from tests.support.agents import agent_body

        body = agent_body(
            wallet, name=name, strategy=strategy, loopIntervalMs=1000, guardrails=WIDE
        )
        with self.client() as client:
            answer = client.post("/agents", json=body | changes)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def ask(self, agent: str, what: str, api: int = 0) -> None:
        """`start`, `stop` or `pause` an agent at an API process."""
        with self.client(api) as client:
            answer = client.post(f"/agents/{agent}/{what}")
        assert answer.status_code == 200, answer.text

    def hire(self, count: int) -> dict[str, str]:
        """Agents that pay 0.001 SOL in every cycle, started; agent -> the address it alone pays."""
        payees = {}
        for number in range(count):
            wallet, _ = self.wallet(f"payer-{number}", 5)
            _, payee = self.wallet(f"payee-{number}")
            rule = f"always do transfer to={payee} amount=0.001"
            payees[self.agent(f"payer-{number}", wallet, rule)] = payee
        for agent in payees:
            self.ask(agent, "start")
        return payees

    def cycles(self) -> dict[str, int]:
        """Running agent -> the number of its next cycle."""
        rows = self.rows("SELECT id, cycle_no FROM agents WHERE desired_state = 'running'")
        return {agent: int(cycle) for agent, cycle in rows}

    def go_on(self, by: int = 2, patience_s: float = 60.0) -> float:
        """Wait until every running agent has ended `by` more cycles; the seconds it took."""
        before = self.cycles()

        def moved() -> bool:
            return all(now >= before[agent] + by for agent, now in self.cycles().items())

        return self.until(moved, f"every agent ends {by} more cycles", patience_s)

    def paid_once_a_cycle(self, agent: str, payee: str) -> list[str]:
        """By the ledger the payee of `hire` has what is on record as confirmed, no cycle has two
        payments, and no decision is missing; the status of each payment."""
        stored = self.rows(
            "SELECT signature, status, split_part(action_key, ':', 2) FROM transactions"
            " WHERE agent_id = %s",
            agent,
        )
        landed = self.landed(payee)
        assert sorted(landed) == sorted(name for name, status, _ in stored if status == "confirmed")
        assert len(landed) == len(set(landed))
        assert self.lamports(payee) == SOL // 1000 * len(landed)
        cycles = [cycle for _, _, cycle in stored]
        assert len(cycles) == len(set(cycles))
        decided = self.rows("SELECT cycle FROM decisions WHERE agent_id = %s ORDER BY 1", agent)
        assert [cycle for (cycle,) in decided] == list(range(1, len(decided) + 1))
        return [status for _, status, _ in stored]

    def rpc(self, method: str, *params: Any) -> Any:
        """A call of the ledger's own RPC."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        return httpx.post(self.ledger, json=call, timeout=30, verify=NO_TLS).json()["result"]

    def fund(self, address: str, lamports: int) -> None:
        """Put lamports into an account from nowhere."""
        self.rpc("requestAirdrop", address, lamports)

    def lamports(self, address: str) -> int:
        """What an account holds."""
        return int(self.rpc("getBalance", address)["value"])

    def landed(self, address: str) -> list[str]:
        """The signatures of all that succeeded on an account, newest first."""
        found: list[str] = []
        page: dict[str, Any] = {"limit": 1000}
        while True:
            each = self.rpc("getSignaturesForAddress", address, page)
            found += [one["signature"] for one in each if one["err"] is None]
            if len(each) < 1000:
                return found
            page["before"] = each[-1]["signature"]

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the database says; `%s` stands for each value."""
        url = self.database.replace("+psycopg", "", 1)
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(statement.encode(), values).fetchall()

    def until(self, holds: Callable[[], object], what: str, patience_s: float = 60.0) -> float:
        """Wait until something holds; the seconds it took."""
        begun = time.monotonic()
        while not holds():
            waited = time.monotonic() - begun
            assert waited < patience_s, (
                f"{what} did not come true in {patience_s} s; {self._logs()}"
            )
            time.sleep(0.05)
        return time.monotonic() - begun

    def close(self) -> None:
        """Kill every process."""
        for node in self.nodes:
            if node.runs:
                node.kill()

    def _node(self, nodes: list[Node], kind: str, environment: dict[str, str]) -> Node:
        name = f"{kind}-{len(nodes)}"
        node = Node(self.folder, name, kind, **self.environment | environment)
        nodes.append(node)
        return node

    def _logs(self) -> str:
        texts = [(node.name, node.log.read_text()[-1500:]) for node in self.nodes]
        return "\n".join(f"--- {name}\n{text}" for name, text in texts)


@contextlib.contextmanager
def running_cluster(
    folder: Path,
    database_url: str,
    *,
    apis: int = 1,
    workers: int = 2,
    rpc: Callable[[str], str] | None = None,
    ledger_options: tuple[str, ...] = (),
    **environment: str,
) -> Iterator[Cluster]:
    """A cluster in `folder`, gone at the end.

    Args:
        database_url: of an empty PostgreSQL database.
        rpc: gives what the processes have for SOLANA_RPC_URL, such as a proxy, for the address of
            the ledger's own RPC.
        environment: more variables of every process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with localnet_process(folder / "ledger.db", *ledger_options) as localnet:
        given = {
            "DATABASE_URL": database_url,
            "SOLANA_RPC_URL": localnet.http if rpc is None else rpc(localnet.http),
            "SOLANA_NETWORK": "localnet",
            "JUPITER_API_URL": localnet.http,
        }
        cluster = Cluster(folder, localnet.http, database_url, given | environment)
        try:
            cluster.add(apis, workers)
            yield cluster
        finally:
            cluster.close()


# What a process writes to its log, as it writes it.


@contextmanager
def written_log(level: str = "DEBUG") -> Iterator[io.StringIO]:
    """Every line of the level and above, until the block ends."""
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    stream = io.StringIO()
    configure(level, as_json=False, stream=stream)
    try:
        yield stream
    finally:
        root.handlers[:], root.level = handlers, before
        structlog.reset_defaults()


# Processes that confine themselves, as root and as an ordinary user, for tests of confinement.

NOBODY_ID = 65534
# An ordinary user's machine tests that user alone; CI and containers test both.
USERS = ("root", "nobody") if os.geteuid() == 0 else ("own",)

# Imported before the user changes: nobody may not read an interpreter in root's home.
_CONFINED_PROGRAM = """
import asyncio, ctypes, json, locale, os, socket, sys, threading, time, uvloop, zoneinfo
from solward.hosts.confinement import Confinement, ConfinementUnavailable, confine
{imports}
if {user!r} == "nobody":
    os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
output = os.dup(1)
answers = {{}}
def ask(name, question):
    try:
        answers[name] = question()
    except BaseException as error:
        answers[name] = f"{{type(error).__name__}}: {{error}}"
{code}
os.write(output, json.dumps(answers, default=str).encode())
"""


@contextmanager
def folder_of(user: str) -> Iterator[Path]:
    """A folder that this user owns and everybody may read."""
    folder = Path(tempfile.mkdtemp(prefix="solward-confined-"))
    try:
        folder.chmod(0o755)
        if user == "nobody":
            os.chown(folder, NOBODY_ID, NOBODY_ID)
        yield folder
    finally:
        shutil.rmtree(folder)


def answers_of(user: str, code: str, imports: str = "") -> dict[str, Any]:
    """Run code that calls `ask(name, question)`; an error is its class and text."""
    program = _CONFINED_PROGRAM.format(user=user, nobody=NOBODY_ID, code=code, imports=imports)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "framework")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers
