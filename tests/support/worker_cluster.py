"""Many processes on one PostgreSQL and one ledger: started, killed, frozen and restarted at will.

What became of money is asked of the ledger itself, past every process and its database.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
from tests.support.agents import agent_body
from tests.support.localnet_process import localnet_process
from tests.support.service_process import NO_TLS, Service

_PROGRAM = Path(__file__).with_name("cluster_program.py")

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
        self.program = (str(_PROGRAM),)
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
