"""What was judged is read back in its order, with what the service gave back of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.database import WALLET_ROW

from solward.database.database import Database
from solward.database.tables import holds, reservations, transactions, wallets
from solward.operations.policies.replay import CountedPart, first_judged, judged_page
from solward.types.record import HoldState, TransactionStatus
from solward.vault.grants.judged import JudgedCase, to_row
from solward.vault.grants.model import Case
from solward.vault.store import judged as judged_store

MINT = "So1dTokenNobodyLists11111111111111111111111"


async def judged(connection: AsyncConnection, id_: str, ms: int, verdict: str = "allowed") -> None:
    case = Case("w", ("wallet:w", "agent:a"), (), 5_000, (ms, ms))
    await judged_store.note_judged(connection, to_row(JudgedCase(id_, "other", case, verdict, 1)))


async def ended(
    connection: AsyncConnection,
    id_: str,
    status: TransactionStatus,
    kept: Mapping[str, int] | None = None,
) -> None:
    record = {
        "id": id_,
        "wallet_id": "w",
        "principal": "agent:a",
        "type": "other",
        "status": status.value,
        "details": "{}",
        "guardrails_applied": [],
        "held_lamports": 0,
        "created_ms": 1,
    }
    await connection.execute(insert(transactions), [record])
    rows = [
        {"transaction_id": id_, "scope": scope, "asset": asset, "created_ms": 1, "units": units}
        for scope in ("wallet:w", "grant:agent:a#1")
        for asset, units in (kept or {}).items()
    ]
    if rows:
        await connection.execute(insert(reservations), rows)


@pytest.fixture(autouse=True)
async def wallet(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(insert(wallets), [WALLET_ROW | {"id": "w"}])


async def test_pages_follow_the_order_of_judgement_and_not_the_clock(database: Database) -> None:
    async with database.write() as connection:
        for id_, ms in (("d", 100), ("c", 300), ("b", 200), ("a", 300)):
            await judged(connection, id_, ms)
    async with database.read() as connection:
        first, count = await first_judged(connection, 100)
        assert count == 3
        newest, seq, _ = await judged_page(connection, first, 2)
        pages = [newest, (await judged_page(connection, seq, 2))[0]]
        assert await first_judged(connection, 300) == (0, 0)
    names = [[past.judged.transaction_id for past in page] for page in pages]
    assert names == [["c", "b"], ["a"]]


async def test_what_was_given_back_counts_no_more(database: Database) -> None:
    spent = {"SOL": 5, "COSTS": 7}
    async with database.write() as connection:
        for id_ in ("pending", "confirmed", "released", "landed", "one host's word", "tokens"):
            await judged(connection, id_, 1)
        await ended(connection, "pending", TransactionStatus.PENDING, spent)
        await ended(connection, "confirmed", TransactionStatus.CONFIRMED, spent)
        await ended(connection, "released", TransactionStatus.FAILED)
        await ended(connection, "landed", TransactionStatus.FAILED, {"SOL": 0, "COSTS": 7, MINT: 0})
        await ended(connection, "one host's word", TransactionStatus.FAILED, spent)
        await ended(connection, "tokens", TransactionStatus.FAILED, {"SOL": 0, MINT: 3})
    async with database.read() as connection:
        rows, *_ = await judged_page(connection, 0)
    assert {row.judged.transaction_id: row.kept for row in rows} == {
        "pending": CountedPart.ALL,
        "confirmed": CountedPart.ALL,
        "released": CountedPart.NOTHING,
        "landed": CountedPart.COSTS,
        "one host's word": CountedPart.ALL,
        "tokens": CountedPart.ALL,
    }


async def test_a_hold_that_was_carried_out_counts_as_what_was_carried_out(
    database: Database,
) -> None:
    columns = {column.name: _some(column) for column in holds.c if column.name != "seq"}
    async with database.write() as connection:
        for state in (HoldState.HELD, HoldState.DENIED, HoldState.EXECUTED):
            await judged(connection, state.value, 1, "held")
            own = {"id": state.value, "wallet_id": "w", "state": state.value}
            own["digest"] = state.value
            await connection.execute(insert(holds), [columns | own])
    async with database.read() as connection:
        rows, *_ = await judged_page(connection, 0)
    assert [(row.judged.transaction_id, row.kept) for row in rows] == [
        ("held", CountedPart.ALL),
        ("denied", CountedPart.ALL),
        ("executed", CountedPart.NOTHING),
    ]


def _some(column: Any) -> Any:
    """A value of the column's type; what it says does not matter here."""
    if column.nullable:
        return None
    return {"JSON": {}, "BIGINT": 1}.get(str(column.type), "")
