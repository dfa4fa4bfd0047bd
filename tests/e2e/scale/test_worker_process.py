"""Agents on workers, as real processes: what is killed is taken over, what is stopped ends well."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator

import httpx
import pytest
from tests.support import database as servers
from tests.support.processes import SECRET, Cluster, running_cluster

# Two processes take a while to start on a busy machine, and each test starts some again.
pytestmark = [
    pytest.mark.samples("test_a_worker_shows_that_it_lives_and_works_and_counts"),
    pytest.mark.timeout(300),
]

PAYERS = 4
TAKEOVER_S = 20.0


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, postgres: servers.Postgres
) -> Iterator[Cluster]:
    """Two API processes and two workers for all tests, each of which leaves its agents stopped."""
    url = postgres.fresh()
    with running_cluster(tmp_path_factory.mktemp("scale") / "cluster", url, apis=2) as running:
        yield running
    postgres.drop(url)


def paid_once_a_cycle(
    cluster: Cluster, payees: dict[str, str], stopped: Collection[int] = ()
) -> None:
    """By the ledger, every cycle of a stopped agent paid exactly once, but for one that the stop
    itself refused.

    Args:
        stopped: the last cycles before earlier stops.
    """
    for agent, payee in payees.items():
        statuses = cluster.paid_once_a_cycle(agent, payee)
        # What was reserved and not yet signed by the killed is released: `failed`, and told so.
        assert set(statuses) <= {"confirmed", "failed"}
        [(next_cycle,)] = cluster.rows("SELECT cycle_no FROM agents WHERE id = %s", agent)
        unpaid = cluster.rows(
            "SELECT cycle, outcome FROM decisions WHERE agent_id = %s AND cycle NOT IN"
            " (SELECT split_part(action_key, ':', 2)::int FROM transactions WHERE agent_id = %s)",
            agent,
            agent,
        )
        # The stop came between its decision and its reservation.
        assert {cycle for cycle, _outcome in unpaid} <= {*stopped, next_cycle - 1}
        assert {outcome for _cycle, outcome in unpaid} <= {
            "The agent was stopped; nothing was sent"
        }
        assert len(statuses) + len(unpaid) == next_cycle - 1


def test_the_cycles_of_a_killed_worker_are_taken_over_and_nothing_is_paid_twice(
    cluster: Cluster,
) -> None:
    payees = cluster.hire(PAYERS)
    cluster.go_on()
    killed, other = cluster.workers
    entered = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing' AND lock IS NOT NULL"
    cluster.until(lambda: cluster.rows(entered) != [(0,)], "a cycle runs")
    killed.kill()
    took = cluster.go_on()
    assert took < TAKEOVER_S, f"taken over after {took:.1f} s"
    killed.start()
    other.kill()
    cluster.go_on()
    other.start()
    for agent in payees:
        cluster.ask(agent, "stop")
    pending = "SELECT count(*) FROM transactions WHERE status = 'pending'"
    cluster.until(lambda: cluster.rows(pending) == [(0,)], "what the killed ones sent is settled")
    paid_once_a_cycle(cluster, payees)


@pytest.mark.long
def test_a_worker_told_to_stop_loses_nothing_and_ends_with_0(cluster: Cluster) -> None:
    payees = cluster.hire(PAYERS)
    cluster.go_on()
    for worker in cluster.workers:
        assert worker.stop(signal.SIGTERM) == 0
        worker.start()
        cluster.go_on(1)
    for agent in payees:
        cluster.ask(agent, "stop")
    paid_once_a_cycle(cluster, payees)
    unpaid = "SELECT error FROM transactions WHERE agent_id = ANY(%s) AND status <> 'confirmed'"
    assert cluster.rows(unpaid, list(payees)) == []


@pytest.mark.more
def test_a_worker_shows_that_it_lives_and_works_and_counts(cluster: Cluster) -> None:
    url = cluster.workers[0].alive.removesuffix("/readyz")
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
    ready = httpx.get(f"{url}/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ledger": True, "queue": True})
    assert httpx.get(f"{url}/metrics").status_code == 401
    told = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {SECRET}"})
    assert 'solward_process_info{kind="worker"' in told.text
    assert 'solward_jobs{status="doing"}' in told.text


def test_start_stop_pause_and_chat_work_from_any_api(cluster: Cluster) -> None:
    wallet, _ = cluster.wallet("w", 5)
    _, payee = cluster.wallet("payee")
    agent = cluster.agent("a", wallet, f"always do transfer to={payee} amount=0.001")
    stopped: list[int] = []
    for number, ending in enumerate(("stop", "pause")):
        cluster.ask(agent, "start", number)
        cluster.go_on(1)
        with cluster.client(1 - number) as client:
            assert client.get("/health").json()["agents"]["running"] == 1
            answer = client.post(f"/agents/{agent}/chat", json={"message": "hello"})
            assert answer.status_code == 200, answer.text
        cluster.ask(agent, ending, 1 - number)
        standing = "SELECT cycle_no, entered_ms FROM agents WHERE id = %s"
        [(decided, entered)] = cluster.rows(standing, agent)
        assert entered is None
        jobs = "SELECT status FROM procrastinate_jobs WHERE lock = %s AND status = 'todo'"
        assert cluster.rows(jobs, agent) == []
        paid_once_a_cycle(cluster, {agent: payee}, stopped)
        stopped.append(decided - 1)
        assert cluster.rows(standing, agent) == [(decided, None)]


@pytest.mark.long
def test_a_worker_the_queue_gave_up_ends_with_1_for_a_supervisor(cluster: Cluster) -> None:
    payees = cluster.hire(PAYERS)
    cluster.go_on(1)
    cluster.rows("DELETE FROM procrastinate_workers RETURNING id")
    cluster.until(lambda: not any(node.runs for node in cluster.workers), "both workers' end")
    for worker in cluster.workers:
        assert worker.process is not None
        assert worker.process.returncode == 1
        assert "start the worker again" in worker.log.read_text()
    for worker in cluster.workers:
        worker.launch()
    for worker in cluster.workers:
        worker.serving()
    cluster.go_on(1)
    for agent in payees:
        cluster.ask(agent, "stop")
    paid_once_a_cycle(cluster, payees)
