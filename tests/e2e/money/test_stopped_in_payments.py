"""SIGTERM in the middle of payments: each is answered or can be asked again, and paid once."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.support.processes import SECRET, Service, funded_wallet, sol_of

PAYMENTS = 40


async def _pay(service: Service, wallet: str, to: str) -> list[int | None]:
    """The status of each payment, None where the connection ended; the service is stopped once the
    first one is paid."""
    assert service.process is not None
    process = service.process
    # The service ends at once by a second signal that comes a second later: only one is sent.
    stopping = asyncio.Event()

    async def pay(client: httpx.AsyncClient, number: int) -> int | None:
        headers = {"Idempotency-Key": f"payment {number}"}
        body = {"to": to, "amount": 0.01}
        try:
            answer = await client.post(f"/wallets/{wallet}/transfer", json=body, headers=headers)
        except httpx.TransportError:
            return None
        if not stopping.is_set():
            stopping.set()
            process.terminate()
        # A whole answer is a payment that ended.
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == "confirmed"
        return answer.status_code

    headers = {"Authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=60) as client:
        return await asyncio.gather(*(pay(client, number) for number in range(PAYMENTS)))


@pytest.mark.more
def test_a_payment_is_answered_or_asked_again_and_paid_once(services: Any) -> None:
    service = services().start()
    with service.client() as client:
        wallet = funded_wallet(client, "sender", 2)
        recipient = client.post("/wallets", json={"name": "recipient"}).json()
    first = asyncio.run(_pay(service, wallet, recipient["address"]))
    assert 200 in first
    assert service.process.wait(20) == 0
    service.start()
    again = asyncio.run(_pay_all(service, wallet, recipient["address"]))
    assert again == [200] * PAYMENTS
    with service.client() as client:
        assert sol_of(client, recipient["walletId"]) == Decimal("0.01") * PAYMENTS
    assert "Traceback" not in service.log.read_text()


async def _pay_all(service: Service, wallet: str, to: str) -> list[int]:
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=60) as client:
        answers = []
        for number in range(PAYMENTS):
            key, body = {"Idempotency-Key": f"payment {number}"}, {"to": to, "amount": 0.01}
            path = f"/wallets/{wallet}/transfer"
            answers.append(await client.post(path, json=body, headers=key))
        return [each.status_code for each in answers]
