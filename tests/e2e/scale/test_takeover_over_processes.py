"""An API process dies with a payment in its hands; another one ends it, and both logs tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.processes import Cluster, Node, running_cluster

pytestmark = pytest.mark.more

LAMPORTS = 500_000_000


def lines(node: Node, transaction: str) -> list[dict[str, Any]]:
    """What a process logged of a transaction, in order."""
    found = []
    for line in node.log.read_text().splitlines():
        if line.startswith("{") and transaction in line:
            found.append(json.loads(line))
    return found


def talkative(cluster: Cluster, node: Node, armed: str | None = None) -> None:
    """Start it again with each step in its log, and maybe with its end built in."""
    node.kill()
    node.starting = ("server", "start", "--log-level", "info")
    node.start(armed)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "step", [pytest.param("reserved", marks=pytest.mark.long), "written_ahead"]
)
def test_a_payment_is_ended_by_another_process_under_the_same_trace(
    tmp_path: Path, postgres_url: str, step: str
) -> None:
    with running_cluster(tmp_path / "cluster", postgres_url, apis=2, workers=0) as cluster:
        dying, other = cluster.apis
        wallet, _ = cluster.wallet("payer", 5)
        _, payee = cluster.wallet("payee")
        talkative(cluster, other)
        talkative(cluster, dying, f"kill:{step}:1")
        headers = {"X-Request-Id": "followed-7", "Idempotency-Key": "pay-once"}
        request = {"url": f"/wallets/{wallet}/transfer", "json": {"to": payee, "amount": 0.5}}
        with dying.client() as client, pytest.raises(httpx.TransportError):
            client.post(**request, headers=headers)
        dying.wait_killed()

        with other.client() as client:
            busy = client.post(**request, headers=headers)
            assert (busy.status_code, busy.headers["Retry-After"]) == (409, "1")
        ended = "SELECT id FROM transactions WHERE status <> 'pending'"
        took = cluster.until(lambda: cluster.rows(ended), "the payment is taken over")
        [(transaction,)] = cluster.rows(ended)
        print(f"{step}: ended {took:.1f} s after the kill")

        landed = step == "written_ahead"
        assert cluster.lamports(payee) == (LAMPORTS if landed else 0)
        with other.client() as client:
            told = client.post(**request, headers=headers)
        assert told.status_code == (200 if landed else 500)
        assert told.headers["Idempotent-Replayed"] == "true"
        before, after = lines(dying, transaction), lines(other, transaction)
        assert before[0]["event"] == "transaction_reserved"
        # What was never signed is taken over and released in one commit.
        assert sorted(line["event"] for line in after) == [
            "transaction_settled",
            "transaction_taken_over",
        ]
        assert {line["trace"] for line in before + after} == {"followed-7"}
