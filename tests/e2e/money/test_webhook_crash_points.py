"""Killed at every point between a request and its payment, what a person approved by the webhook is
paid at most once, and the receiver is told how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.http import Handler, served_in_thread
from tests.support.processes import NO_TLS, Service, funded_wallet, sol_of

from solward.client import Delivery, sign_decision, verify_delivery
from solward.vault.money.steps import PAID_STEPS, Step

pytestmark = pytest.mark.more

SECRET = "a-secret-of-the-webhook-of-32-bytes!"
AMOUNT = Decimal("0.01")
STEPS = (*PAID_STEPS, Step.HELD, Step.APPROVED)
# What is reserved and not written ahead was never sent; the approval is used up by it.
NOTHING_SENT = (Step.RESERVED, Step.SIGNED)
# Each process takes seconds to start: of three points each run of CI, of all of them the long one.
OFTEN = (Step.APPROVED, Step.RESERVED, Step.SENT)
# The first time is the request's own, before it is held.
TWICE = (Step.BUILT, Step.ASSESSED)


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[Delivery]]]:
    """The address of one, and what it heard."""
    heard: list[Delivery] = []

    class Receiver(Handler):
        def post(self) -> None:
            heard.append(verify_delivery(SECRET, dict(self.headers), self.body()))
            self.reply(204)

    with served_in_thread(Receiver) as url:
        yield f"{url}/", heard


def approve(told: Delivery) -> httpx.Response:
    sent = sign_decision(SECRET, told.hold["id"], "approve")
    with httpx.Client(verify=NO_TLS, timeout=60) as client:
        return client.post(told.decision_url, content=sent.body, headers=dict(sent.headers))


@promise("approved-pays-once", "kill-after-approval")
@pytest.mark.parametrize(
    "step",
    [each if each in OFTEN else pytest.param(each, marks=pytest.mark.long) for each in STEPS],
)
def test_approved_and_killed_it_is_paid_at_most_once(
    services: Any, receiver: tuple[str, list[Delivery]], step: Step
) -> None:
    url, heard = receiver
    service: Service = services(APPROVAL_WEBHOOK_URL=url, APPROVAL_WEBHOOK_SECRET=SECRET)
    service.environment["SOLWARD_API_URL"] = f"http://127.0.0.1:{service.port}"
    service.start()
    with service.client() as admin:
        sender = funded_wallet(admin, "sender", 2)
        recipient = admin.post("/wallets", json={"name": "recipient"}).json()
        key = admin.post("/keys", json={"name": "payer"}).json()["apiKey"]
    service.stop()

    path = f"/wallets/{sender}/transfer"
    body = {"to": recipient["address"], "amount": float(AMOUNT)}
    headers = {"Idempotency-Key": "invoice-7"}

    def told(event: str) -> list[Delivery]:
        return [each for each in heard if each.event == event]

    service.start(f"asking,kill:{step}:{2 if step in TWICE else 1}")
    with service.client(key) as client:
        if step is Step.HELD:
            with pytest.raises(httpx.TransportError):
                client.post(path, json=body, headers=headers)
        else:
            assert client.post(path, json=body, headers=headers).status_code == 202
            created = wait_until(lambda: told("hold:created"))[0]
            with pytest.raises(httpx.TransportError):
                approve(created)
    service.wait_killed()

    service.start("asking")
    if step is Step.HELD:
        created = wait_until(lambda: told("hold:created"))[0]
        assert approve(created).json()["state"] == "executed"
    ended = wait_until(lambda: told("hold:executed"))[0]
    assert ended.hold["decidedBy"] == "webhook"
    with service.client() as admin, service.client(key) as client:
        answer = wait_until(lambda: settled(client, path, body, headers))
        # Whoever approves or asks again moves nothing more.
        assert approve(created).json()["state"] == "executed"
        assert client.post(path, json=body, headers=headers).status_code == answer.status_code
        received = sol_of(admin, recipient["walletId"])
        records = admin.get(f"/wallets/{sender}/transactions").json()["transactions"]
    [record] = [each for each in records if each["type"] == "transfer"]
    assert record["id"] == ended.hold["transactionId"]
    sent = step not in NOTHING_SENT
    assert received == (AMOUNT if sent else 0)
    assert record["status"] == ("confirmed" if sent else "failed")
    assert answer.status_code == (200 if sent else 500)


def settled(client: httpx.Client, path: str, body: Any, headers: Any) -> httpx.Response | None:
    answer = client.post(path, json=body, headers=headers)
    return None if answer.status_code in (202, 409) else answer
