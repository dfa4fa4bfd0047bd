"""What one process of several changed, the others show and obey at once."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.services import STRANGER, several_apis

pytestmark = pytest.mark.more


async def test_equal_payments_of_several_processes_are_all_made(
    postgres_url: str, tmp_path: Path
) -> None:
    async with several_apis(
        postgres_url, tmp_path / "home", 3, max_transactions_per_minute=100
    ) as apis:
        wallet = await apis[0].wallet(2)
        to = await apis[0].wallet()
        address = (await apis[0].get(f"/wallets/{to}")).json["publicKey"]
        body = {"to": address, "amount": 0.01}
        # On one blockhash equal messages would have one signature, and one payment.
        answers = await asyncio.gather(
            *(apis[n % 3].post(f"/wallets/{wallet}/transfer", body) for n in range(12))
        )
        assert {answer.status for answer in answers} == {200}, [each.text for each in answers]
        assert len({answer.json["signature"] for answer in answers}) == 12
        assert (await apis[1].get(f"/wallets/{to}/balance")).json["sol"] == Decimal("0.12")


async def test_a_freeze_at_one_process_stops_the_others(postgres_url: str, tmp_path: Path) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 2) as (first, second):
        wallet = await first.wallet(1)
        path = f"/wallets/{wallet}"
        body = {"to": STRANGER, "amount": 0.1}
        assert (await second.post(f"{path}/transfer", body)).status == 200
        frozen = {"walletId": wallet, "reason": "stop"}
        assert (await first.post("/freeze", frozen)).status == 200
        stopped = await second.post(f"{path}/transfer", body)
        assert (stopped.status, "frozen: stop" in stopped.error) == (500, True)
        assert (await second.post("/unfreeze", {"walletId": wallet})).status == 200
        assert (await first.post(f"{path}/transfer", body)).status == 200
