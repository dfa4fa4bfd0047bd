"""Several processes decide at once: a payment is one's, and made once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.services import STRANGER, several_apis

from solward.types.errors import HoldDecided
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import HoldState

pytestmark = [pytest.mark.more, pytest.mark.usefixtures("asking")]

PAYMENTS = 8


@promise("approval-used-up-at-reserve")
async def test_two_processes_that_approve_at_once_pay_once(
    postgres_url: str, tmp_path: Path
) -> None:
    settings = {"max_transactions_per_minute": 100}
    async with several_apis(postgres_url, tmp_path / "home", 2, **settings) as apis:
        first, second = apis
        wallet = await first.wallet(2)
        token, _ = await first.key(rateLimit=100)
        for number in range(PAYMENTS):
            body = {"to": STRANGER, "amount": 0.01}
            answer = await apis[number % 2].post(
                f"/wallets/{wallet}/transfer",
                body,
                token=token,
                headers={"Idempotency-Key": str(number)},
            )
            assert answer.status == 202, answer.text
        holds = await second.service.approvals.listed(is_open=True)
        assert len(holds) == PAYMENTS
        await asyncio.gather(
            *(
                api.service.approvals.approve(hold.id, "admin")
                for hold in holds
                for api in (first, second, first)
            )
        )
        async with asyncio.timeout(30):
            while any(hold.state.is_open for hold in await first.service.approvals.listed()):
                await asyncio.sleep(0.05)
        ended = await second.service.approvals.listed()
        assert {hold.state for hold in ended} == {HoldState.EXECUTED}
        assert len({hold.transaction_id for hold in ended}) == PAYMENTS
        async with asyncio.timeout(30):
            while any(each["status"] == "pending" for each in await first.records(wallet)):
                await asyncio.sleep(0.05)
        records = [each for each in await second.records(wallet) if each["type"] == "transfer"]
        assert {each["id"] for each in records} == {hold.transaction_id for hold in ended}
        assert {each["status"] for each in records} == {"confirmed"}
        paid = await first.service.ledger.balance(STRANGER)
        assert paid == PAYMENTS * LAMPORTS_PER_SOL // 100


async def test_of_an_approval_and_a_denial_at_once_one_counts(
    postgres_url: str, tmp_path: Path
) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 2) as (first, second):
        wallet = await first.wallet(2)
        token, _ = await first.key()
        path = f"/wallets/{wallet}/transfer"
        answer = await first.post(path, {"to": STRANGER, "amount": 0.01}, token=token)
        hold = answer.json["holdId"]
        both = await asyncio.gather(
            first.service.approvals.approve(hold, "admin"),
            second.service.approvals.deny(hold, "admin"),
            return_exceptions=True,
        )
        assert not [each for each in both if isinstance(each, BaseException)] or any(
            isinstance(each, HoldDecided) for each in both
        )
        async with asyncio.timeout(30):
            while (ended := await first.service.approvals.get(hold)).state.is_open:
                await asyncio.sleep(0.05)
        paid = await first.service.ledger.balance(STRANGER)
        assert paid == (LAMPORTS_PER_SOL // 100 if ended.state is HoldState.EXECUTED else 0)
        assert ended.state in (HoldState.EXECUTED, HoldState.DENIED)
        [record] = [each for each in await first.records(wallet) if each["type"] == "transfer"]
        assert record["id"] == ended.transaction_id
