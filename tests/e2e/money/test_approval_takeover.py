"""A process dies with an approval in its hands; another carries it out, at most once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.processes import Cluster, running_cluster

from solward.vault.money.steps import PAID_STEPS, Step

pytestmark = [pytest.mark.more, pytest.mark.timeout(240)]

LAMPORTS = 10_000_000
STEPS = (Step.APPROVED, *PAID_STEPS)
# What is reserved and not written ahead was never sent; the approval is used up by it.
NOTHING_SENT = (Step.RESERVED, Step.SIGNED)
# Processes take seconds to start: of two points each run of CI, of all of them the long one.
OFTEN = (Step.APPROVED, Step.WRITTEN_AHEAD)


def until(found: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline
        # A key may ask ten times a second, and many rounds ask with one.
        time.sleep(0.25)
    return value


class Killed:
    """A cluster of two, of which one dies at a step of what it approves."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.dying, self.other = cluster.apis
        self.wallet, _ = cluster.wallet("payer", 5)
        self.paid = 0
        self.other.kill()
        self.other.start("asking")
        with self.other.client() as admin:
            key = {"name": "k", "rateLimit": 1000, "spendingLimitSol": 100}
            self.token = admin.post("/keys", json=key).json()["apiKey"]

    def approve_and_die(self, step: Step, number: int) -> None:
        """One payment, killed at `step` and taken over; judged by the ledger."""
        self.dying.kill()
        self.dying.start(f"asking,kill:{step}:1")
        _, payee = self.cluster.wallet(f"payee-{number}")
        path = f"/wallets/{self.wallet}/transfer"
        body = {"to": payee, "amount": LAMPORTS / 10**9}
        key = {"Idempotency-Key": f"{step}-{number}"}
        with self.other.client(self.token) as client:
            held = client.post(path, json=body, headers=key)
        assert held.status_code == 202, held.text
        hold = f"/holds/{held.json()['holdId']}"
        with self.dying.client() as admin, pytest.raises(httpx.TransportError):
            admin.post(f"{hold}/approve", json={})
        self.dying.wait_killed()

        with self.other.client() as admin, self.other.client(self.token) as client:

            def ended() -> Any:
                found = admin.get(hold).json()
                return found if found["state"] not in ("held", "approved") else None

            def settled() -> httpx.Response | None:
                answer = client.post(path, json=body, headers=key)
                return None if answer.status_code in (202, 409) else answer

            state = until(ended)
            answer = until(settled)
            # Approved again, and asked for again, it moves nothing more.
            assert admin.post(f"{hold}/approve", json={}).status_code == 200
            assert client.post(path, json=body, headers=key).text == answer.text
            records = admin.get(f"/wallets/{self.wallet}/transactions?limit=500").json()
        assert state["state"] == "executed"
        [record] = [each for each in records["transactions"] if each["details"].get("to") == payee]
        assert record["id"] == state["transactionId"]
        sent = step not in NOTHING_SENT
        assert record["status"] == ("confirmed" if sent else "failed")
        assert answer.status_code == (200 if sent else 500)
        assert self.cluster.lamports(payee) == (LAMPORTS if sent else 0)


@promise("kill-after-approval")
@pytest.mark.parametrize(
    "step",
    [each if each in OFTEN else pytest.param(each, marks=pytest.mark.long) for each in STEPS],
)
def test_killed_after_the_approval_another_process_goes_on(
    tmp_path: Path, postgres_url: str, step: Step
) -> None:
    with running_cluster(tmp_path / "cluster", postgres_url, apis=2, workers=0) as cluster:
        Killed(cluster).approve_and_die(step, 1)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("step", STEPS)
def test_twenty_times_at_each_step(tmp_path: Path, postgres_url: str, step: Step) -> None:
    with running_cluster(tmp_path / "cluster", postgres_url, apis=2, workers=0) as cluster:
        killed = Killed(cluster)
        for number in range(20):
            killed.approve_and_die(step, number)
