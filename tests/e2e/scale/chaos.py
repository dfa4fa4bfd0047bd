"""What a storm needs: a supervisor that kills and restarts, clients that retry, and a witness."""

from __future__ import annotations

import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.support.processes import Cluster, Node

from solward.vault.money.send.takeover import LEASE_S

LAMPORTS = 1_000_000
PATIENCE_S = 120.0


@dataclass
class Supervisor:
    """Kills random processes, one at a time, and starts each again at once.

    Attributes:
        killed: the names of those it killed, in order.
    """

    nodes: list[Node]
    dice: random.Random
    killed: list[str] = field(default_factory=list)
    _starting: dict[str, threading.Thread] = field(default_factory=dict)
    _failed: list[BaseException] = field(default_factory=list)

    def strike(self) -> None:
        """SIGKILL one that has come up, if one has."""
        up = [node for node in self.nodes if node.runs and not self._is_starting(node)]
        if not up:
            return
        node = self.dice.choice(up)
        node.kill()
        self.killed.append(node.name)
        thread = threading.Thread(target=self._start, args=(node,), daemon=True)
        self._starting[node.name] = thread
        thread.start()

    def all_up(self) -> None:
        """Wait until everything runs."""
        for thread in self._starting.values():
            thread.join(200)
        assert not self._failed, self._failed
        for node in self.nodes:
            if not node.runs:
                node.start()

    def _is_starting(self, node: Node) -> bool:
        thread = self._starting.get(node.name)
        return thread is not None and thread.is_alive()

    def _start(self, node: Node) -> None:
        try:
            node.start()
        except BaseException as error:  # told by `all_up`, in the test's own thread
            self._failed.append(error)


@dataclass
class Client:
    """Pays again and again, each time with a key of its own, retrying until it is told the end.

    Attributes:
        answers: key -> the last status and body; `retries` how often it had to ask again.
    """

    cluster: Cluster
    wallet: str
    to: str
    dice: random.Random
    answers: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    retries: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until `stop`; what was begun is asked for to its end."""
        while not self.stop.is_set():
            key = str(uuid.uuid4())
            self.answers[key] = self._until_told(key)
            self.stop.wait(0.2)

    def _until_told(self, key: str) -> tuple[int, dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE_S
        asked = 0
        while time.monotonic() < deadline:
            asked += 1
            self.retries += asked > 1
            api = self.dice.choice(self.cluster.apis)
            try:
                with api.client() as client:
                    answer = client.post(
                        f"/wallets/{self.wallet}/transfer",
                        json={"to": self.to, "amount": 0.001},
                        headers={"Idempotency-Key": key},
                    )
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code == 200 and answer.json()["signature"]:
                return 200, answer.json()
            if answer.status_code == 500 and answer.headers.get("Idempotent-Replayed"):
                return 500, answer.json()
            # Still being worked on, or refused for the first time: ask until it is the stored end.
            time.sleep(0.2)
        raise AssertionError(f"{key} was not told its end in {PATIENCE_S} s")


@dataclass
class Witness:
    """Looks on from the database: how long what the killed left behind stood still.

    Attributes:
        cycles_s: from entering a cycle that was cut off to entering it again; at least the time
            from the kill.
        payments_s: from the last sign of life of a transaction's owner to its takeover, within the
            two seconds between two of them.
    """

    cluster: Cluster
    cycles_s: list[float] = field(default_factory=list)
    payments_s: list[float] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    _entered: dict[str, tuple[int, int, int | None]] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Until `stop`."""
        while not self.stop.wait(0.2):
            self._look_at_cycles()
            self._look_at_payments()

    def _look_at_cycles(self) -> None:
        for agent, cycle, fence, entered in self.cluster.rows(
            "SELECT id, cycle_no, fence, entered_ms FROM agents"
        ):
            before = self._entered.get(agent)
            self._entered[agent] = (cycle, fence, entered)
            if before is None or entered is None or before[2] is None:
                continue
            if before[0] == cycle and before[1] < fence:
                self.cycles_s.append((entered - before[2]) / 1000)

    def _look_at_payments(self) -> None:
        pending = dict(
            self.cluster.rows("SELECT id, owner FROM transactions WHERE status = 'pending'")
        )
        for transaction, owner in list(self._owners.items()):
            if transaction not in pending:
                del self._owners[transaction]
            elif pending[transaction] != owner:
                since = self.cluster.rows(
                    "SELECT (extract(epoch FROM clock_timestamp()) * 1000 - lease_until_ms)::float"
                    " FROM processes WHERE id = %s",
                    owner,
                )
                if since:
                    self.payments_s.append(since[0][0] / 1000 + LEASE_S)
        self._owners |= pending  # type: ignore[arg-type]


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of them are; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
