"""Payments that are handed over: paid at most once, counted always, whatever the seller does."""

from __future__ import annotations

from pathlib import Path

from tests.support.handed_payments import FUNDS, PRICE, open_shop

from solward.record import TransactionStatus


async def test_a_sponsored_payment_lands_and_costs_the_wallet_no_sol(tmp_path: Path) -> None:
    async with open_shop(tmp_path, sol=0) as shop:
        handed = await shop.hand_over()
        assert (handed.record.status, handed.record.signature) == (TransactionStatus.PENDING, None)
        assert await shop.counted() == PRICE
        signature = await shop.settle(handed)
        await shop.answer(handed, signature)
        record = await shop.ended(handed)
        assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, signature)
        assert record.fee_lamports == 0
        assert await shop.received() == PRICE
        assert await shop.tokens.units(shop.mint) == FUNDS - PRICE
        assert await shop.counted() == PRICE
