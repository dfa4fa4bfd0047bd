"""Pages of records as JSON: what the records say, in few statements, and never what was before."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.database import WALLET_ROW, query_plans
from tests.support.engine import Bench

from solward.database.database import Database
from solward.service.history import History, TextCache
from solward.support import jsontext
from solward.types.errors import TransactionError
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store import attempts, transactions, wallets
from solward.vault.store.attempts import Settlement

CONFIRMED, PENDING = TransactionStatus.CONFIRMED, TransactionStatus.PENDING
HOSTILE = ' "\\/\b\f\n\r\t\x1f\x7f\u2028\u2029é€😀'
AMOUNTS = ("1", "0.1", "1E-9", "0.000000001", "123456789.123456789", "1E+3", "0")


def record(number: int, status: TransactionStatus = CONFIRMED) -> TransactionRecord:
    return TransactionRecord(
        f"t{number}",
        f"w{number % 2}",
        "transfer",
        status,
        {"amount": Decimal(AMOUNTS[number % len(AMOUNTS)]), "note": HOSTILE, "more": [None, True]},
        ("max_per_tx", HOSTILE),
        created_ms=1_795_424_127_000 + number,
        agent_id="a" if number % 3 == 0 else None,
        signature="s" if number % 2 == 0 else None,
        error=None if number % 4 else HOSTILE,
        fee_lamports=None if number % 5 == 0 else 5_000,
        principal="key:k",
    )


async def store(database: Database, *records: TransactionRecord) -> None:
    async with database.write() as connection:
        for each in sorted({r.wallet_id for r in records}):
            if await wallets.get_wallet(connection, each) is None:
                row = WALLET_ROW | {"id": each, "public_key": each}
                await wallets.insert_wallet(connection, row)
        for each_record in records:
            await transactions.insert_record(connection, each_record, action_key=None)


async def test_a_page_is_the_bytes_of_its_records(database: Database) -> None:
    statuses = tuple(TransactionStatus)
    await store(database, *(record(n, statuses[n % len(statuses)]) for n in range(40)))
    pages = History(database)
    # The second time it is what was kept.
    for _time in range(2):
        for wallet, before, limit in ((None, None, 50), ("w1", None, 7), ("w0", "t21", 50)):
            for fee in (False, True):
                found = await pages.page(wallet, limit, before, fee=fee)
                async with database.read() as connection:
                    expected = await transactions.history(connection, wallet, limit, before)
                assert len(expected) > 6
                assert found == [jsontext.dumps(r.to_json(fee=fee)).encode() for r in expected]
                # As they were stored, and not only as they are read.
                stored = [record(int(each.id[1:])).details for each in expected]
                assert [jsontext.loads(each)["details"] for each in found] == stored


async def test_a_record_shows_its_end_at_once(bench: Bench) -> None:
    pages = History(bench.database)

    async def shown() -> str:
        [newest] = await pages.page(bench.wallet.id, 1, None, fee=False)
        return str(jsontext.loads(newest)["status"])

    waiting = replace(record(2, PENDING), wallet_id=bench.wallet.id)
    async with bench.database.write() as connection:
        await transactions.insert_record(connection, waiting, action_key=None)
    assert await shown() == "pending"
    async with bench.database.write() as connection:
        await attempts.settle(connection, [Settlement("t2", CONFIRMED, None, 1, 1)])
    assert await shown() == "confirmed"


async def test_a_record_never_changes_after_its_end(bench: Bench) -> None:
    ended = await bench.transfer(Decimal("0.1"))
    with pytest.raises(TransactionError):
        await bench.transfer(1_000)
    failed = (await bench.history())[0]
    assert failed.status is TransactionStatus.FAILED
    other = Settlement(ended.id, TransactionStatus.FAILED, None, 1, 1, "x", details={"a": 1})
    async with bench.database.write() as connection:
        # Each statement that changes records; the harness refuses that one is changed.
        await attempts.settle(connection, [other, replace(other, transaction_id=failed.id)])
        assert not await transactions.set_signature(connection, ended.id, "another")
    assert await bench.history() == [failed, ended]


@pytest.mark.sqlite("its driver's note of each statement")
async def test_a_page_that_is_kept_takes_one_statement(database: Database) -> None:
    await store(database, *map(record, range(60)))
    pages = History(database)

    async def page(connection: AsyncConnection) -> None:
        pages._database = SimpleNamespace(read=lambda: contextlib.nullcontext(connection))
        assert len(await pages.page(None, 50, None, fee=False)) == 50

    assert len(await query_plans(database, page)) == 2
    assert len(await query_plans(database, page)) == 1
    await store(database, record(60, PENDING))
    # What has not ended is read each time.
    for _time in range(2):
        assert len(await query_plans(database, page)) == 2


def test_texts_are_kept_within_their_bytes() -> None:
    texts = TextCache(10_000)
    for number in range(1_000):
        texts.put((str(number), False), b"x" * 700)
        assert texts.bytes <= 10_000
        # Used each time, so never the one that is dropped.
        assert texts.get(("0", False)) is not None
    assert texts.get(("998", False)) is not None
    assert texts.get(("500", False)) is None
    assert sum(texts.get((str(number), False)) is not None for number in range(1_000)) == 10
