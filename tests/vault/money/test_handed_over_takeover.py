"""A payment whose process dies at any step is paid at most once, and counted while it may be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.engine import UNLIMITED
from tests.vault.money.handed_payments import PRICE, Shop, open_shop
from tests.vault.money.test_reconcile import Died, die_at

from solward.types.payment import PaymentMode
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import Policy
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN, HandedOverPayment
from solward.vault.money.steps import Step

MODES = (PaymentMode.SPONSORED, PaymentMode.UNSPONSORED)
# Before the bytes are durable nobody has them; before the reservation nothing is stored.
UNSTORED = (Step.BUILT, Step.ASSESSED)
UNSIGNED = (Step.RESERVED, Step.SIGNED)
DURABLE = (Step.WRITTEN_AHEAD, Step.HANDED_OVER, Step.ANSWERED)


@asynccontextmanager
async def next_process(shop: Shop) -> AsyncIterator[Engine]:
    """The engine of a process that starts after the other one died."""
    bench = shop.bench
    options = EngineOptions(Policy(), UNLIMITED, close_wait_s=0.1)
    engine = Engine(bench.ledger, bench.database, bench.wallets, options)
    engine.watcher.pace = 0.02
    engine.start()
    first, bench.engine = bench.engine, engine
    await first.watcher.close()
    await first.sender.close()
    try:
        await engine.reconcile(0.1)
        yield engine
    finally:
        await engine.close()


async def the_record(shop: Shop) -> TransactionRecord:
    [record] = await shop.bench.history()
    return record


@promise("kill-at-each-payment-step")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", [*UNSTORED, *UNSIGNED, *DURABLE])
async def test_killed_at_a_step_it_is_found_or_given_back(
    tmp_path: Path, step: Step, mode: PaymentMode
) -> None:
    async with open_shop(tmp_path) as shop:
        engine = shop.bench.engine
        for part in (engine, engine._signing, engine._assessor):
            part._hook = die_at(step)
        with pytest.raises(Died):
            await shop.answer(await shop.hand_over(mode=mode))
        if step in UNSTORED:
            assert await shop.bench.history() == []
            return
        async with next_process(shop) as engine:
            record = await the_record(shop)
            _record, row, wire = await engine.payment(record.id)
            assert row.mode is mode
            if step in UNSIGNED:
                assert (record.status, wire) == (TransactionStatus.FAILED, None)
                assert await shop.counted() == 0
                return
            assert wire is not None
            assert await shop.counted() == PRICE
            handed = HandedOverPayment(record, wire)
            if mode is PaymentMode.SPONSORED:
                signature = await shop.settle(handed)
            else:
                assert shop.bench.wire.calls["sendTransaction"] == 0
                signature = await shop.send(shop.as_it_is(wire))
            ended = await shop.ended(handed)
            assert (ended.status, ended.signature) == (TransactionStatus.CONFIRMED, signature)
        assert await shop.received() == PRICE
        assert await shop.counted() == PRICE


@promise("kill-at-each-payment-step")
@pytest.mark.parametrize("step", [Step.LANDED, Step.SETTLED])
async def test_killed_once_it_landed_it_is_settled_once(tmp_path: Path, step: Step) -> None:
    async with open_shop(tmp_path) as shop:
        died = asyncio.Event()

        def hook(at: Step) -> None:
            if at is step:
                died.set()
                raise Died

        watcher = shop.bench.engine.watcher
        watcher._hook = hook
        handed = await shop.hand_over()
        signature = await shop.settle(handed)
        await shop.answer(handed, signature)
        await died.wait()
        assert watcher._task is not None
        with pytest.raises(Died):
            await watcher._task
        watcher._task = None
        async with next_process(shop):
            record = await shop.ended(handed)
            assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, signature)
        assert await shop.counted() == PRICE


@promise("kill-at-each-payment-step")
@pytest.mark.parametrize("mode", MODES)
async def test_what_expired_while_nobody_ran_is_dead(tmp_path: Path, mode: PaymentMode) -> None:
    async with open_shop(tmp_path) as shop:
        shop.bench.engine._hook = die_at(Step.HANDED_OVER)
        with pytest.raises(Died):
            await shop.hand_over(mode=mode)
        await shop.expire()
        async with next_process(shop) as engine:
            record = await engine.wait_until_settled((await the_record(shop)).id, 10)
            assert record.status is TransactionStatus.FAILED
        assert await shop.counted() == 0


@promise("kill-at-each-payment-step")
async def test_an_answer_that_was_stored_before_the_end_is_a_hint_to_who_goes_on(
    tmp_path: Path,
) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        signature = await shop.settle(handed)
        shop.bench.engine._hook = die_at(Step.ANSWERED)
        with pytest.raises(Died):
            await shop.answer(handed, signature)
        shop.bench.wire.away("getSignaturesForAddress")
        async with next_process(shop):
            assert (await shop.ended(handed)).signature == signature


@promise("start-waits-for-no-seller")
async def test_a_start_does_not_wait_for_what_a_seller_has(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        shop.bench.engine._hook = die_at(Step.HANDED_OVER)
        for mode in MODES:
            with pytest.raises(Died):
                await shop.hand_over(mode=mode)
        async with next_process(shop) as engine, asyncio.timeout(5):
            again = await engine.reconcile(60)
            assert (again.released, again.resumed) in ((0, 0), (0, 2))


@promise("asked-again-not-resigned")
async def test_the_same_action_again_is_given_no_bytes_and_its_payment_has_the_same(
    tmp_path: Path,
) -> None:
    actor = replace(ADMIN, action_key="a:1:pay:1")
    async with open_shop(tmp_path) as shop:
        first = await shop.hand_over(actor=actor)
        again = await shop.hand_over(actor=actor)
        assert (again.record.id, again.wire) == (first.record.id, None)
        assert (await shop.bench.engine.payment(first.record.id))[2] == first.wire
        await shop.answer(first, await shop.settle(first))
        ended = await shop.ended(first)
        assert await shop.hand_over(actor=actor) == HandedOverPayment(ended, None)
        assert await shop.received() == PRICE
