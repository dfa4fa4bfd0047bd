"""Odd answers about what landed: an error without a fee, no meta, a status that comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import Bench
from tests.support.tokens import FEE, RENT, TokenBench, open_tokens, tokens
from tests.vault.money.handed_payments import PRICE, open_shop
from tests.vault.money.test_closed_accounts import cost, in_window, known, unwrap, wrap
from tests.vault.money.test_fates import (
    EXPIRED_SLOTS,
    HALF,
    HALF_LAMPORTS,
    knows_nothing,
    swallows,
    until_state,
)

from solward.types.errors import TransactionFailed
from solward.types.record import TransactionStatus

__all__ = ["tokens"]


async def asked(bench: Bench, method: str, more: int = 3) -> None:
    """Wait until the node was asked for something a few times more."""
    wanted = bench.wire.calls[method] + more
    await until(lambda: bench.wire.calls[method] >= wanted)


def status_of(err: Any, confirmation: str = "finalized") -> Any:
    """A node by which every signature has one status."""

    async def says(_method: str, params: Sequence[Any]) -> Any:
        status = {"slot": 1, "err": err, "confirmationStatus": confirmation}
        return {"context": {"slot": 2**40}, "value": [status] * len(params[0])}

    return says


BELOW_RENT = {"InsufficientFundsForRent": {"account_index": 0}}


@promise("unpaid-is-not-the-end")
@pytest.mark.parametrize(
    ("err", "fee"),
    [
        ("InsufficientFundsForFee", 0),
        ("AccountNotFound", 0),
        ("InvalidAccountForFee", 0),
        # Either nothing ran, or it ran and the fee is gone.
        (BELOW_RENT, FEE),
    ],
)
async def test_an_error_of_the_fee_payer_ends_nothing_before_the_bytes_expire(
    bench: Bench, err: Any, fee: int
) -> None:
    bench.engine.sender.pace = 0.05
    bench.wire.faults |= {"getSignatureStatuses": status_of(err), "sendTransaction": swallows}
    paying = asyncio.create_task(bench.transfer(HALF))
    await asked(bench, "getSignatureStatuses")
    assert (await bench.history())[0].status is TransactionStatus.PENDING
    assert await bench.reserved_units() == HALF_LAMPORTS
    await bench.localnet.advance_slots(EXPIRED_SLOTS)
    with pytest.raises(TransactionFailed, match="failed on the ledger") as caught:
        await paying
    assert caught.value.record.fee_lamports == fee
    assert await bench.reserved_units() == 0
    assert await in_window(bench) == fee
    await until_state(bench, "landed_err")


@promise("unpaid-is-not-the-end")
async def test_what_did_not_run_at_first_and_then_lands_is_paid_once(bench: Bench) -> None:
    bench.engine.sender.pace = 0.05
    bench.wire.faults["getSignatureStatuses"] = status_of("InsufficientFundsForFee")
    paying = asyncio.create_task(bench.transfer(HALF))
    await asked(bench, "getSignatureStatuses")
    assert (await bench.history())[0].status is TransactionStatus.PENDING
    bench.wire.faults.clear()
    assert (await paying).status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.recipient) == HALF_LAMPORTS
    assert await bench.reserved_units() == HALF_LAMPORTS


@promise("unpaid-is-not-the-end")
async def test_a_payment_whose_sponsor_cannot_pay_yet_stays_counted(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        sent = shop.signed(handed.wire)
        shop.bench.wire.faults["getSignatureStatuses"] = status_of("InsufficientFundsForFee")
        await shop.answer(handed, str(sent.signatures[0]))
        await asked(shop.bench, "getSignatureStatuses")
        assert (
            await shop.bench.engine.wait_until_settled(handed.record.id, 0.1)
        ).status == "pending"
        assert await shop.counted() == PRICE
        await shop.send(sent)
        shop.bench.wire.faults.clear()
        assert (await shop.ended(handed)).status is TransactionStatus.CONFIRMED
        assert (await shop.received(), await shop.counted()) == (PRICE, PRICE)


@promise("landed-stays-landed")
@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_status_that_vanishes_does_not_make_dead_what_landed(
    tokens: TokenBench, comes_back: bool
) -> None:
    bench = tokens.bench
    sender = bench.engine.sender
    sender.pace = 0.05
    sender.balances_s = 3_600
    bench.wire.away("getTransaction")
    wrapping = asyncio.create_task(wrap(tokens))
    await until(lambda: bench.wire.calls["getTransaction"] > 0)
    bench.wire.faults["getSignatureStatuses"] = knows_nothing
    await bench.localnet.advance_slots(EXPIRED_SLOTS)
    await asked(bench, "getSignatureStatuses")
    assert (await bench.history())[0].status is TransactionStatus.PENDING
    if comes_back:
        del bench.wire.faults["getSignatureStatuses"]
    del bench.wire.faults["getTransaction"]
    record = await wrapping
    assert record.status is TransactionStatus.CONFIRMED
    assert await cost(bench, record) == FEE + RENT
    assert len(await known(bench)) == 1


async def test_a_status_that_is_processed_vanishes_and_comes_back_is_one_payment(
    bench: Bench,
) -> None:
    bench.engine.sender.pace = 0.05
    bench.wire.faults["getSignatureStatuses"] = status_of(None, "processed")
    paying = asyncio.create_task(bench.transfer(HALF))
    await asked(bench, "getSignatureStatuses")
    bench.wire.faults["getSignatureStatuses"] = knows_nothing
    await asked(bench, "getSignatureStatuses")
    assert (await bench.history())[0].status is TransactionStatus.PENDING
    bench.wire.faults.clear()
    assert (await paying).status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.recipient) == HALF_LAMPORTS


@promise("balances-need-two-hosts")
@pytest.mark.parametrize("lost", ["meta", "preTokenBalances", "fee and logs"])
async def test_what_landed_without_its_meta_gives_nothing_back_until_it_is_there(
    tmp_path: Path, lost: str
) -> None:
    async with open_tokens(tmp_path) as opened:
        bench = opened.bench
        bench.engine.sender.pace = 0.05

        async def without(method: str, params: Sequence[Any]) -> Any:
            answer = await bench.wire.direct(method, params)
            if lost == "meta":
                answer["meta"] = None
            elif lost == "fee and logs":
                answer["meta"] |= {"fee": 0, "logMessages": None}
            else:
                answer["meta"][lost] = None
            return answer

        opening = await wrap(opened)
        bench.wire.faults["getTransaction"] = without
        bench.engine.sender.balances_s = 0.05
        closing = await unwrap(opened)
        assert closing.status is TransactionStatus.CONFIRMED
        # Fee and logs say nothing that the balances do not.
        kept = 0 if lost == "fee and logs" else RENT
        assert await cost(bench, opening) == FEE + kept
        assert await in_window(bench) == 2 * FEE + kept
        bench.engine.sender.balances_s = 3_600
        again = asyncio.create_task(wrap(opened))
        if kept:
            await asked(bench, "getTransaction")
            assert not again.done()
        bench.wire.faults.clear()
        assert (await again).status is TransactionStatus.CONFIRMED
        assert await in_window(bench) == 3 * FEE + kept + RENT
        assert Decimal(await opened.units("So11111111111111111111111111111111111111112")) > 0
