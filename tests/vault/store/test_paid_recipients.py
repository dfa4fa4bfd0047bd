"""Whom a wallet has paid, and who only looks like them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlalchemy import insert, update
from tests.support.database import WALLET_ROW

from solward.database.database import Database
from solward.database.tables import transactions, wallets
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store import recipients
from solward.vault.store import transactions as transaction_store

PAID = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
ALIKE = "9xQePoisonPoisonPoisonPoisonPoisonPoisonVFin"
OTHER_END = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFim"
OTHER = "4Nd1mYabcdefghijkmnopqrstuvwxyzABCDEFGHJKLMN"
ASKED = (PAID, ALIKE, OTHER_END, OTHER)


@pytest.fixture(autouse=True)
async def wallet(database: Database) -> None:
    async with database.write() as connection:
        rows = [WALLET_ROW | {"id": name, "public_key": name} for name in ("w", "v")]
        await connection.execute(insert(wallets), rows)


async def pay(
    database: Database, id_: str, to: Sequence[str], status: TransactionStatus, wallet: str = "w"
) -> None:
    record = TransactionRecord(
        id_, wallet, "transfer", TransactionStatus.PENDING, {}, (), created_ms=1, principal="admin"
    )
    async with database.write() as connection:
        await transaction_store.insert_record(connection, record, action_key=None)
        await recipients.note_paid(connection, wallet, to, id_)
    await end(database, id_, status)


async def end(database: Database, id_: str, status: TransactionStatus) -> None:
    async with database.write() as connection:
        await connection.execute(
            update(transactions).where(transactions.c.id == id_).values(status=status.value)
        )


async def known(database: Database, wallet: str = "w") -> tuple[set[str], dict[str, str]]:
    async with database.read() as connection:
        paid, alike = await recipients.paid_before(connection, wallet, ASKED)
    return set(paid), alike


async def test_only_a_confirmed_payment_makes_a_recipient_known(database: Database) -> None:
    for number, status in enumerate((TransactionStatus.FAILED, TransactionStatus.PENDING)):
        await pay(database, f"t{number}", [PAID], status)
        assert await known(database) == (set(), {})
    await end(database, "t1", TransactionStatus.CONFIRMED)
    assert (await known(database))[0] == {PAID}
    # Neither a later payment that fails nor another wallet's changes that.
    await pay(database, "t2", [PAID, OTHER], TransactionStatus.FAILED)
    assert (await known(database))[0] == {PAID}
    assert await known(database, "v") == (set(), {})


async def test_a_later_payment_counts_where_the_first_failed(database: Database) -> None:
    await pay(database, "t0", [ALIKE], TransactionStatus.CONFIRMED)
    await pay(database, "t1", [PAID], TransactionStatus.FAILED)
    await pay(database, "t2", [OTHER, PAID, PAID], TransactionStatus.CONFIRMED)
    assert (await known(database))[0] == {PAID, ALIKE, OTHER}


async def test_an_address_that_looks_like_a_paid_one_is_named_with_it(database: Database) -> None:
    await pay(database, "t1", [PAID], TransactionStatus.CONFIRMED)
    assert await known(database) == ({PAID}, {ALIKE: PAID})
    # Once it was paid itself it is known, and looks like nobody else.
    await pay(database, "t2", [ALIKE], TransactionStatus.CONFIRMED)
    assert await known(database) == ({PAID, ALIKE}, {})
