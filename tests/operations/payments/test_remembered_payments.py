"""What `context.pay` remembers: where a payment is made, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.payments import PRICE, Shop, open_shop
from tests.support.plugins import keeping_module
from tests.support.sellers import Reply

from solward import Put, SkillContext, SkillError
from solward.testing.targets import target_of
from solward.types.errors import PaymentRefused
from solward.vault.money.request import ADMIN


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "home") as opened:
        yield opened


async def context_of(shop: Shop) -> SkillContext:
    """Of a plugin's skill on the wallet that pays."""
    loaded = replace(target_of(keeping_module()).loaded, distribution="keeper")
    wallet = await shop.service.wallets.get(shop.wallet)
    return shop.service.skill_runs.context(loaded, wallet, ADMIN)


@promise("paid-request-remembers")
async def test_a_payment_is_remembered_with_its_record(shop: Shop) -> None:
    context = await context_of(shop)
    paid = await context.pay(
        url=shop.url, max="0.05 USDC", remember=Put("today", "weather", version=0)
    )
    assert paid.payment is not None
    [entry] = await context.store.list()
    assert (entry.key, entry.value, entry.transaction_id) == ("today", "weather", paid.payment.id)
    assert entry.status is not None
    assert entry.status.value == "confirmed"
    assert [each.type for each in await context.history()] == ["payment"]


async def test_of_requests_at_once_for_one_entry_one_is_paid(shop: Shop) -> None:
    async def buy() -> str:
        context = await context_of(shop)
        try:
            await context.pay(url=shop.url, max="0.05 USDC", remember=Put("today", 1, version=0))
        except SkillError as error:
            return error.code
        return "paid"

    assert sorted(await asyncio.gather(*(buy() for _ in range(4)))) == [
        "paid",
        *["store_changed"] * 3,
    ]
    assert await shop.earned() == PRICE
    assert len(await shop.records()) == 1


@promise("paid-request-remembers")
async def test_what_is_not_paid_is_not_remembered(shop: Shop) -> None:
    context = await context_of(shop)
    with pytest.raises(PaymentRefused):
        await context.pay(url=shop.url, max="0.001 USDC", remember=Put("today", 1))
    shop.seller.says(Reply(200, (), b"for nothing"))
    free = await context.pay(url=shop.url, max="0.05 USDC", remember=Put("today", 1))
    assert (free.status, free.payment) == (200, None)
    assert await context.store.list() == ()
