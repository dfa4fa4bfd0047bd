"""Killed at every named point of the money path, an intent lands at most once and is not lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.localnet import localnet_process
from tests.support.processes import Service, funded_wallet, sol_of

from solward.vault.money.steps import PAID_STEPS, Step

pytestmark = pytest.mark.samples(
    "test_an_intent_killed_with_its_embedded_ledger_lands_at_most_once[written_ahead]"
)

AMOUNT = Decimal("0.01")
# From here on the signed bytes are durable, so a restart must bring them to the ledger.
DURABLE = (Step.WRITTEN_AHEAD, Step.SENT, Step.LANDED, Step.SETTLED)
# Before the reservation nothing is stored: the retried request is a first request.
UNSTORED = (Step.BUILT, Step.ASSESSED)


def crash_and_recover(service: Service, step: Step) -> None:
    """One intent, killed at `step`, retried with its key after a restart; judged by the ledger."""
    service.start()
    with service.client() as client:
        sender = funded_wallet(client, "sender", 2)
        recipient = client.post("/wallets", json={"name": "recipient"}).json()
        before = sol_of(client, sender)
    service.stop()

    path = f"/wallets/{sender}/transfer"
    body = {"to": recipient["address"], "amount": float(AMOUNT)}
    key = {"Idempotency-Key": f"crash-{step}"}
    service.start(f"kill:{step}:1")
    with service.client() as client, pytest.raises(httpx.TransportError):
        client.post(path, json=body, headers=key)
    service.wait_killed()

    service.start()
    with service.client() as client:
        answer = settled(client, path, body, key)
        again = client.post(path, json=body, headers=key)
        assert (again.status_code, again.text) == (answer.status_code, answer.text)
        assert again.headers["Idempotent-Replayed"] == "true"
        received = sol_of(client, recipient["walletId"])
        records = client.get(f"/wallets/{sender}/transactions").json()["transactions"]
        transfers = [record for record in records if record["type"] == "transfer"]
        paid = before - sol_of(client, sender)
        limits = client.get(f"/wallets/{sender}/limits").json()["dailySpendingLimitSol"]
        told = client.get("/audit?limit=500").json()["entries"]

    assert len(transfers) == 1
    assert told_of_transactions(told) == Counter(
        (record["id"], status) for record in records for status in ("pending", record["status"])
    )
    landed = step in DURABLE or step in UNSTORED
    assert answer.status_code == (200 if landed else 500), answer.text
    assert transfers[0]["status"] == ("confirmed" if landed else "failed")
    assert received == (AMOUNT if landed else 0)
    assert paid == (AMOUNT + Decimal("0.000005") if landed else 0)
    # The budget holds what the ledger took, and nothing stays reserved.
    assert Decimal(str(limits["spent"])) == received
    assert limits["reserved"] == 0
    service.stop()


def told_of_transactions(entries: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """How often the audit log says that a transaction got a status."""
    return Counter(
        (entry["data"]["id"], entry["event"].removeprefix("transaction:"))
        for entry in entries
        if entry["event"].startswith("transaction:")
    )


def settled(
    client: httpx.Client, path: str, body: dict[str, Any], key: dict[str, str]
) -> httpx.Response:
    """The answer to the retried request once it is not in progress any more."""

    def asked() -> httpx.Response | None:
        answer = client.post(path, json=body, headers=key)
        if answer.status_code != 409:
            return answer
        assert int(answer.headers["Retry-After"]) >= 1
        return None

    settled: httpx.Response = wait_until(asked, "the answer", 30)
    return settled


@pytest.fixture
def localnet(tmp_path: Path) -> Iterator[str]:
    """The RPC address of a `solward localnet` of its own."""
    with localnet_process(tmp_path / "ledger.db") as process:
        yield process.http


@promise("durable-before-sent", "kill-at-each-step")
@pytest.mark.parametrize("step", PAID_STEPS)
def test_an_intent_killed_with_its_embedded_ledger_lands_at_most_once(
    services: Any, step: Step
) -> None:
    crash_and_recover(services(), step)


@promise("kill-beside-living-ledger", "sent-once-paid-once")
@pytest.mark.parametrize("step", [Step.RESERVED, Step.WRITTEN_AHEAD, Step.SENT])
def test_an_intent_killed_beside_a_living_ledger_lands_at_most_once(
    services: Any, localnet: str, step: Step
) -> None:
    crash_and_recover(services(SOLANA_RPC_URL=localnet, SOLANA_NETWORK="localnet"), step)


@promise("kill-beside-living-ledger")
@pytest.mark.long
@pytest.mark.parametrize("ledger", ["embedded", "separate"])
@pytest.mark.parametrize("step", PAID_STEPS)
@pytest.mark.parametrize("turn", range(5))
def test_every_point_five_times(
    services: Any, request: pytest.FixtureRequest, step: Step, ledger: str, turn: int
) -> None:
    environment = {}
    if ledger == "separate":
        url = request.getfixturevalue("localnet")
        environment = {"SOLANA_RPC_URL": url, "SOLANA_NETWORK": "localnet"}
    crash_and_recover(services(**environment), step)
