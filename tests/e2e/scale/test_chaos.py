"""Two hundred kills in ten minutes, over API processes and workers, in bad weather.

By the ledger afterwards: each intent landed at most once and none was lost, what is on record as
spent is at least what the ledger took, and every agent still runs.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.e2e.scale.chaos import LAMPORTS, Client, Supervisor, Witness, percentile
from tests.promises import promise
from tests.support.processes import SOL, Cluster, running_cluster
from tests.support.scripts.weather import weather_process

AGENTS = 100
CLIENTS = 4
FUNDS = 20
SECONDS = float(os.environ.get("SOLWARD_CHAOS_SECONDS", "600"))
KILLS = int(os.environ.get("SOLWARD_CHAOS_KILLS", "200"))
SEED = int(os.environ.get("SOLWARD_CHAOS_SEED", "7"))
WEATHER = {
    "throttle": 0.02,
    "fail": 0.02,
    "drop": 0.02,
    "deafen": 0.02,
    "delay": 0.1,
    "duplicate": 0.2,
}


class Purse:
    """A wallet, and the address that it alone pays."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.wallet, self.address = cluster.wallet(name, FUNDS)
        _, self.payee = cluster.wallet(f"{name}-payee")


def hire(cluster: Cluster) -> dict[str, Purse]:
    """Agents that pay in every cycle, started; agent -> what it pays from and to."""
    purses = {}
    for number in range(AGENTS):
        purse = Purse(cluster, f"agent-{number}")
        rule = f"always do transfer to={purse.payee} amount=0.001"
        agent = cluster.agent(f"agent-{number}", purse.wallet, rule, loopIntervalMs=10_000)
        purses[agent] = purse
    for agent in purses:
        cluster.ask(agent, "start")
    return purses


def storm(cluster: Cluster, supervisor: Supervisor, clients: list[Client]) -> Witness:
    """The kills, spread over the time, while the clients pay."""
    witness = Witness(cluster)
    threads = [threading.Thread(target=each.run) for each in (witness, *clients)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    try:
        while len(supervisor.killed) < KILLS and time.monotonic() - began < 1.5 * SECONDS:
            due = began + len(supervisor.killed) * SECONDS / KILLS
            time.sleep(max(0.05, due - time.monotonic()))
            supervisor.strike()
        print(f"{len(supervisor.killed)} kills in {time.monotonic() - began:.0f} s")
        supervisor.all_up()
    finally:
        for client in clients:
            client.stop.set()
        for thread in threads[1:]:
            thread.join(200)
        witness.stop.set()
        threads[0].join(30)
    return witness


@promise("storm-over-processes")
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_paid_twice_or_lost_in_a_storm(tmp_path: Path, postgres_url: str) -> None:
    with contextlib.ExitStack() as stack:
        proxies: list[str] = []

        def weather(ledger: str) -> str:
            proxies.append(stack.enter_context(weather_process(ledger, seed=SEED, **WEATHER)))
            return proxies[0]

        cluster = stack.enter_context(
            running_cluster(tmp_path / "cluster", postgres_url, apis=3, workers=3, rpc=weather)
        )
        purses = hire(cluster)
        clients = [
            Client(cluster, purse.wallet, purse.payee, random.Random(SEED + number))
            for number in range(CLIENTS)
            for purse in [Purse(cluster, f"client-{number}")]
        ]
        client_wallets = {client.wallet: client for client in clients}
        supervisor = Supervisor(cluster.nodes, random.Random(SEED))
        witness = storm(cluster, supervisor, clients)

        print(f"killed {dict(Counter(supervisor.killed))}")
        print(f"weather {httpx.get(f'{proxies[0]}/counts').json()}")
        httpx.put(f"{proxies[0]}/weather", json={})
        every_agent_still_runs(cluster)
        for number, agent in enumerate(purses):
            cluster.ask(agent, "stop", number % 3)
        pending = "SELECT count(*) FROM transactions WHERE status = 'pending'"
        cluster.until(lambda: cluster.rows(pending) == [(0,)], "nothing is pending", 180)

        for agent, purse in purses.items():
            assert "confirmed" in cluster.paid_once_a_cycle(agent, purse.payee)
            books_cover_the_ledger(cluster, purse.wallet, purse.address)
        for wallet, client in client_wallets.items():
            client_was_told_the_truth(cluster, client)
            [(address,)] = cluster.rows("SELECT public_key FROM wallets WHERE id = %s", wallet)
            books_cover_the_ledger(cluster, wallet, address)
        attempts_are_what_the_ledger_says(cluster)
        the_audit_log_is_whole(cluster)
        ends = cluster.rows("SELECT status, count(*) FROM transactions GROUP BY 1 ORDER BY 1")
        told = sum(len(client.answers) for client in clients)
        retries = sum(client.retries for client in clients)
        print(f"transactions {dict(ends)}; {told} asked by clients with {retries} retries")
        for what, seconds in (("cycles", witness.cycles_s), ("payments", witness.payments_s)):
            p50, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
            print(f"takeover of {len(seconds)} {what}: p50 {p50:.1f} s, p99 {p99:.1f} s")
        assert len(supervisor.killed) >= KILLS
        assert all(len(client.answers) > SECONDS / 60 for client in clients)
        assert witness.cycles_s
        assert witness.payments_s


def every_agent_still_runs(cluster: Cluster) -> None:
    status = "SELECT DISTINCT status, desired_state FROM agents"
    cluster.until(lambda: cluster.rows(status) == [("running", "running")], "all run", 180)
    cluster.go_on(patience_s=180)


def client_was_told_the_truth(cluster: Cluster, client: Client) -> None:
    """Each key landed at most once, and exactly where its caller was told so."""
    told = {body["signature"] for status, body in client.answers.values() if status == 200}
    assert len(told) == sum(status == 200 for status, _ in client.answers.values())
    assert set(cluster.landed(client.to)) == told
    assert cluster.lamports(client.to) == LAMPORTS * len(told)
    [(keys,)] = cluster.rows(
        "SELECT count(*) FROM idempotency WHERE scope LIKE %s", f"%/{client.wallet}/%"
    )
    assert keys == len(client.answers)


def books_cover_the_ledger(cluster: Cluster, wallet: str, address: str) -> None:
    """What is held for a wallet's payments is at least what the ledger took."""
    [(held,)] = cluster.rows(
        "SELECT coalesce(sum(held_lamports), 0) FROM transactions WHERE wallet_id = %s", wallet
    )
    [(counted,)] = cluster.rows(
        "SELECT coalesce(sum(units), 0) FROM reservations WHERE scope = %s AND asset = 'SOL'",
        f"wallet:{wallet}",
    )
    taken = FUNDS * SOL - cluster.lamports(address)
    fees = 5_000 * (taken // LAMPORTS)
    assert held >= taken
    assert counted >= taken - fees


def attempts_are_what_the_ledger_says(cluster: Cluster) -> None:
    """Every signed transaction ended as the ledger has it, and none landed beside another."""
    rows = cluster.rows("SELECT transaction_id, signature, state FROM attempts")
    landed = Counter(transaction for transaction, _, state in rows if state.startswith("landed"))
    assert all(count == 1 for count in landed.values())
    for start in range(0, len(rows), 200):
        page = rows[start : start + 200]
        found = cluster.rpc(
            "getSignatureStatuses",
            [signature for _, signature, _ in page],
            {"searchTransactionHistory": True},
        )["value"]
        for (_, signature, state), status in zip(page, found, strict=True):
            # All its nodes are of one host.
            expected = "presumed_dead"
            if status is not None:
                expected = "landed_ok" if status["err"] is None else "landed_err"
            assert state == expected, (signature, state, status)


def the_audit_log_is_whole(cluster: Cluster) -> None:
    command = [sys.executable, "-m", "solward_cli", "audit", "verify"]
    environment = cluster.apis[0].environment
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stderr
    print(" ".join(checked.stdout.split()))
