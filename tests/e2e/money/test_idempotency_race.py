"""Fifty requests with one Idempotency-Key are one payment."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.processes import SECRET, Service, funded_wallet, sol_of


async def fifty(service: Service, wallet: str, recipient: str) -> list[httpx.Response]:
    headers = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "one payment"}
    async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=60) as client:
        body = {"to": recipient, "amount": 0.25}
        return await asyncio.gather(
            *(client.post(f"/wallets/{wallet}/transfer", json=body) for _ in range(50))
        )


@pytest.mark.more
@promise("other-body-is-422")
def test_fifty_requests_with_one_key_are_one_payment(services: Any) -> None:
    service = services().start()
    with service.client() as client:
        wallet = funded_wallet(client, "sender", 2)
        recipient = client.post("/wallets", json={"name": "recipient"}).json()
        answers = asyncio.run(fifty(service, wallet, recipient["address"]))
        assert {answer.status_code for answer in answers} <= {200, 409}
        paid = [answer for answer in answers if answer.status_code == 200]
        assert len({answer.json()["signature"] for answer in paid}) == 1
        assert all("Retry-After" in a.headers for a in answers if a.status_code == 409)
        assert sol_of(client, recipient["walletId"]) == Decimal("0.25")

        key = {"Idempotency-Key": "one payment"}
        path = f"/wallets/{wallet}/transfer"
        body = {"to": recipient["address"], "amount": 0.25}
        first = next(a for a in paid if "Idempotent-Replayed" not in a.headers)

        def replayed() -> httpx.Response | None:
            answer = client.post(path, json=body, headers=key)
            return None if answer.status_code == 409 else answer

        replay = wait_until(replayed, "the stored answer", 10)
        assert replay.headers["Idempotent-Replayed"] == "true"
        assert (replay.status_code, replay.content) == (first.status_code, first.content)
        other = client.post(path, json=body | {"amount": 0.3}, headers=key)
        assert other.status_code == 422
        assert "Idempotency-Key" in other.json()["error"]
        assert sol_of(client, recipient["walletId"]) == Decimal("0.25")
