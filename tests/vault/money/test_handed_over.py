"""Payments that are handed over: paid at most once, counted always, whatever the seller does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.instructions import create_idempotent_associated_token_account
from tests.promises import promise
from tests.support.localnet import rent
from tests.vault.money.handed_payments import FUNDS, PRICE, open_shop

from solward.solana.message import fee_terms
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES, TOKEN_ACCOUNT_RENT
from solward.support.clock import now_ms
from solward.types.errors import InvalidRequest, TransactionFailed
from solward.types.guardrail import COSTS
from solward.types.payment import PaymentMode
from solward.types.record import TransactionStatus
from solward.vault.money.request import ADMIN
from solward.vault.store import spending


@promise("sponsored-needs-no-sol")
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


def budget_of(wire: bytes | None) -> tuple[int | None, int]:
    """Limit and price of compute units, of bytes that begin with them in this order."""
    assert wire is not None
    message = VersionedTransaction.from_bytes(wire).message
    limit, price, transfer, *_rest = message.instructions
    assert (bytes(limit.data)[0], bytes(price.data)[0], bytes(transfer.data)[0]) == (2, 3, 12)
    terms = fee_terms(message)
    return terms.unit_limit, terms.unit_price


@promise("transactions-equal-payments-differ")
async def test_equal_payments_at_once_differ_by_their_limit_alone(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        handed = [await shop.hand_over(), *await asyncio.gather(*(shop.hand_over() for _ in "123"))]
        budgets = [budget_of(each.wire) for each in handed]
        assert len(set(budgets)) == len(handed)
        assert {price for _limit, price in budgets} == {1}
        signatures = [await shop.settle(each) for each in handed]
        for each, signature in zip(handed, signatures, strict=True):
            await shop.answer(each, signature)
        assert {(await shop.ended(each)).signature for each in handed} == set(signatures)
        assert await shop.received() == 4 * PRICE


@promise("transactions-equal-payments-differ")
async def test_a_payment_within_the_units_of_a_seller_keeps_to_them(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        free, _price = budget_of((await shop.hand_over(memo="a" * 32)).wire)
        assert free is not None
        most = free - 500
        handed = [await shop.hand_over(memo="a" * 32, most_compute_units=most) for _ in "123"]
        limits = [budget_of(each.wire)[0] for each in handed]
        assert len(set(limits)) == 3
        assert all(limit is not None and limit <= most for limit in limits)
        for each in handed:
            await shop.answer(each, await shop.settle(each))
            assert (await shop.ended(each)).status is TransactionStatus.CONFIRMED


@promise("fee-payer-signs-and-watches", "seller-sends-payment")
async def test_what_a_seller_sends_and_the_wallet_pays_for_is_named_at_once(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over(mode=PaymentMode.UNSPONSORED)
        assert handed.wire is not None
        assert shop.bench.wire.calls["sendTransaction"] == 0
        transaction = VersionedTransaction.from_bytes(handed.wire)
        assert handed.record.signature == str(transaction.signatures[0])
        await asyncio.sleep(0.2)
        # This service sends none of it, however late it is.
        assert shop.bench.wire.calls["sendTransaction"] == 0
        await shop.send(transaction)
        record = await shop.ended(handed)
        assert (record.status, record.signature) == (
            TransactionStatus.CONFIRMED,
            handed.record.signature,
        )
        assert record.fee_lamports == 5_001


async def test_the_account_of_a_seller_is_opened_at_the_wallets_cost_which_counts(
    tmp_path: Path,
) -> None:
    """Where nobody sponsors it; no protocol here asks for that yet."""
    async with open_shop(tmp_path, seller_has_account=False) as shop:
        wallet = Pubkey.from_string(shop.bench.wallet.address)
        opening = create_idempotent_associated_token_account(
            wallet, shop.seller.pubkey(), Pubkey.from_string(shop.mint)
        )
        draft = shop.draft(mode=PaymentMode.UNSPONSORED)
        intent = replace(draft.intent, rent_lamports=TOKEN_ACCOUNT_RENT)
        draft = replace(draft, intent=intent, instructions=(opening, *draft.instructions))
        before = await shop.bench.ledger.balance(str(wallet))
        handed = await shop.bench.engine.hand_over(shop.bench.wallet.id, ADMIN, draft)
        assert handed.wire is not None
        scope = f"wallet:{shop.bench.wallet.id}"

        async def costs() -> int:
            async with shop.bench.database.read() as connection:
                found = await spending.usage(connection, [scope], [COSTS], now_ms())
            return found[scope].units_last_day[COSTS]

        assert await costs() == TOKEN_ACCOUNT_RENT + 5_001
        await shop.send(shop.as_it_is(handed.wire))
        assert (await shop.ended(handed)).status is TransactionStatus.CONFIRMED
        assert (await shop.received(), await shop.counted()) == (PRICE, PRICE)
        paid = rent(TOKEN_ACCOUNT_BYTES) + 5_001
        assert before - await shop.bench.ledger.balance(str(wallet)) == paid
        assert await costs() == paid


@promise("seller-sends-payment")
async def test_a_payment_by_push_lands_before_its_seller_is_shown_it(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        draft = shop.draft(mode=PaymentMode.PUSH)
        record = await shop.bench.engine.execute(shop.bench.wallet.id, ADMIN, draft)
        assert record.status is TransactionStatus.CONFIRMED
        assert record.signature is not None
        assert await shop.received() == PRICE
        stored, row, wire = await shop.bench.engine.payment(record.id)
        assert (stored, row.mode, wire) == (record, PaymentMode.PUSH, None)


async def test_a_wallet_that_holds_too_little_hands_nothing_over(tmp_path: Path) -> None:
    async with open_shop(tmp_path, sol=0) as shop:
        with pytest.raises(TransactionFailed, match="insufficient balance"):
            await shop.hand_over(units=FUNDS + 1)
        [record] = await shop.bench.history()
        assert record.status is TransactionStatus.FAILED
        assert await shop.counted() == 0


@promise("no-declared-payment")
async def test_no_caller_can_declare_a_payment(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        draft = replace(shop.draft(), payment=None)
        with pytest.raises(InvalidRequest, match="type must not be payment"):
            await shop.bench.engine.execute(shop.bench.wallet.id, ADMIN, draft)
        assert await shop.bench.history() == []
