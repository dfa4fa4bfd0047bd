"""A filtered history: exactly the records that fit, in pages of bounded work on an index."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from itertools import product
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.promises import promise
from tests.support.database import WALLET_ROW, query_plans

from solward.database.database import Database
from solward.service import history
from solward.service.history import RecordFilter, filtered_ids
from solward.types.record import PLUGIN_DETAILS, TransactionRecord, TransactionStatus, recipient_of
from solward.vault.store import transactions, wallets

TYPES = ("transfer", "airdrop", "swap", "other")
STATUSES = tuple(TransactionStatus)


def record(number: int, dice: random.Random) -> TransactionRecord:
    return TransactionRecord(
        f"t{number}",
        dice.choice(("w0", "w1")),
        dice.choice(TYPES),
        dice.choice(STATUSES),
        {"to": dice.choice(("alice", "bob"))},
        dice.choice((("max_per_tx",), ("max_per_tx", "a_rule"), ("max_per_tx", "a%rule"))),
        # Of several processes' clocks: neither in order nor all different.
        created_ms=1_000 + 10 * (number // 3) + dice.choice((-20, 0, 0)),
        agent_id=dice.choice((None, "a0", "a1")),
        principal=dice.choice(("admin", "key:k1")),
        error=dice.choice((None, "5% IS more than_allowed")),
    )


async def store(database: Database, records: Sequence[TransactionRecord]) -> None:
    async with database.write() as connection:
        for each in ("w0", "w1"):
            row = WALLET_ROW | {"id": each, "public_key": each}
            await wallets.insert_wallet(connection, row)
        for each_record in records:
            await transactions.insert_record(connection, each_record, action_key=None)


def fits(each: TransactionRecord, wanted: RecordFilter) -> bool:
    recipient = recipient_of(each.type, each.details)
    found = {
        "wallet_id": each.wallet_id,
        "agent_id": each.agent_id,
        "recipient": recipient,
        "type": each.type,
        "status": each.status.value,
        "principal": each.principal,
        "rule": each.guardrails_applied[-1] if each.status.value == "blocked" else None,
    }
    texts = (each.id, each.type, each.status.value, each.principal, each.error, each.details["to"])
    if not any((wanted.q or "").lower() in (text or "").lower() for text in texts):
        return False
    since = 0 if wanted.since_ms is None else wanted.since_ms
    until = 2**62 if wanted.until_ms is None else wanted.until_ms
    return since <= each.created_ms < until and all(
        getattr(wanted, name) in (None, value) for name, value in found.items()
    )


async def walked(database: Database, wanted: RecordFilter, limit: int) -> list[str]:
    """Every page of a filtered history."""
    found: list[str] = []
    before: str | None = None
    while True:
        async with database.read() as connection:
            page = await filtered_ids(connection, wanted, limit, before)
        assert len(page.ids) <= limit
        found += page.ids
        if page.next is None:
            return found
        before = page.next


def every_filter() -> list[RecordFilter]:
    """Every set of fields that have one value, and each other field beside at most one of them."""
    choices: dict[str, tuple[Any, ...]] = {
        "wallet_id": (None, "w1"),
        "agent_id": (None, "a1"),
        "recipient": (None, "alice"),
        "type": (None, "transfer"),
        "status": (None, "blocked"),
        "since_ms": (None, 1_050),
        "until_ms": (None, 1_150),
    }
    more = (
        {"principal": "key:k1"},
        {"rule": "a_rule"},
        {"rule": "max_per_tx", "q": "ALICE"},
        {"q": "5% is"},
        {"q": "than_all"},
        {"q": "t5"},
    )
    assert {*choices, *(name for each in more for name in each)} == {
        each.name for each in fields(RecordFilter)
    }
    every = [
        RecordFilter(**dict(zip(choices, values, strict=True)))
        for values in product(*choices.values())
    ]
    few = [each for each in every if list(asdict(each).values()).count(None) > len(choices) + 1]
    return every + [replace(each, **fields) for each in few for fields in more]


async def stored(database: Database) -> list[TransactionRecord]:
    """Some records, newest first by time."""
    dice = random.Random(20)
    records = [record(number, dice) for number in range(60)]
    await store(database, records)
    numbered = sorted(
        enumerate(records), key=lambda pair: (pair[1].created_ms, pair[0]), reverse=True
    )
    return [each for _, each in numbered]


def expected(newest: Sequence[TransactionRecord], wanted: RecordFilter) -> list[str]:
    return [each.id for each in newest if fits(each, wanted)]


@promise("pages-miss-no-record")
@pytest.mark.parametrize(
    "most_walked",
    [
        7,
        pytest.param(1, marks=pytest.mark.more),
        pytest.param(history.MOST_WALKED, marks=pytest.mark.more),
    ],
)
async def test_pages_of_every_filter_are_the_records_that_fit(
    database: Database, monkeypatch: pytest.MonkeyPatch, most_walked: int
) -> None:
    monkeypatch.setattr(history, "MOST_WALKED", most_walked)
    records = await stored(database)
    for wanted in every_filter():
        assert await walked(database, wanted, 3) == expected(records, wanted), wanted


async def test_a_page_goes_on_behind_any_record(database: Database) -> None:
    dice = random.Random(1)
    records = [replace(record(number, dice), created_ms=number) for number in range(20)]
    await store(database, records)
    async with database.read() as connection:
        # The one it begins behind is itself outside of the range, and newer than its end.
        wanted = RecordFilter(until_ms=10)
        page = await filtered_ids(connection, wanted, 3, "t15")
        assert page.ids == ["t9", "t8", "t7"]
        page = await filtered_ids(connection, wanted, 3, "t5")
        assert page.ids == ["t4", "t3", "t2"]
        assert (await filtered_ids(connection, wanted, 3, "nobody")).ids == []


async def test_what_a_plugin_says_in_words_is_no_recipient(database: Database) -> None:
    dice = random.Random(2)
    said = replace(record(1, dice), type="other", details={"to": "alice"})
    paid = replace(record(2, dice), type="transfer", details={"to": "alice"})
    odd = replace(record(3, dice), type="transfer", details={"to": 5})
    await store(database, [said, paid, odd])
    assert await walked(database, RecordFilter(recipient="alice"), 5) == ["t2"]


async def test_what_a_plugin_says_in_words_is_not_searched(database: Database) -> None:
    dice = random.Random(2)
    said = replace(record(1, dice), type="other", details={PLUGIN_DETAILS: {"to": "Alice"}})
    paid = replace(record(2, dice), type="transfer", details={"to": "Alice"})
    await store(database, [said, paid])
    assert await walked(database, RecordFilter(q="alice"), 5) == ["t2"]


_INDEX = {
    "wallet_id": "ix_transactions_wallet_id_created_ms_seq",
    "recipient": "ix_transactions_recipient",
    "agent_id": "ix_transactions_agent",
    None: "ix_transactions_created_ms_seq",
}


ASKED = (
    *((name,) for name in _INDEX),
    ("type",),
    ("recipient", "status"),
    ("agent_id", "type"),
    ("wallet_id", "recipient"),
    ("rule", "q"),
)


def _of(names: tuple[str | None, ...]) -> RecordFilter:
    return RecordFilter(**{name: "x" for name in names if name is not None}, until_ms=5)


@promise("one-index-per-filter")
@pytest.mark.sqlite("its query plans")
async def test_each_filter_walks_its_index_in_order(database: Database) -> None:
    for names, before in product(ASKED, (None, "t1")):

        async def one(connection: AsyncConnection) -> None:
            await filtered_ids(connection, _of(names), 50, before)  # noqa: B023

        walked = next((each for each in names if each in _INDEX), None)
        ((statement, plan),) = await query_plans(database, one)
        reads = [step for step in plan if step.startswith(("SEARCH t", "SCAN t"))]
        assert f"USING INDEX {_INDEX[walked]} " in reads[0].replace("COVERING ", ""), plan
        assert "created_ms>? AND created_ms<?" in reads[0], plan
        # The others find the record that the page begins behind.
        assert all("(id=?)" in step for step in reads[1:]), plan
        # What is walked is bounded, so it may be sorted; the rest comes as the index has it.
        is_sorted = any("B-TREE" in step for step in plan)
        assert not is_sorted or "row_number" in statement, (statement, plan)


@promise("same-pages-on-postgres")
@pytest.mark.more
async def test_postgres_gives_the_same_pages_by_the_same_indexes(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_WALKED", 7)
    records = await stored(postgres_database)
    for wanted in every_filter():
        assert await walked(postgres_database, wanted, 3) == expected(records, wanted), wanted
    # By each of the statements that were run, with an index wherever there is one.
    async with postgres_database.write() as connection:
        await connection.execute(text("SET LOCAL enable_seqscan = off"))
        for names, older in product(ASKED, (False, True)):
            plan = await postgres_plan(connection, _of(names), "t1" if older else None)
            index = _INDEX[next((each for each in names if each in _INDEX), None)]
            scans = [line for line in plan if "Scan" in line and "_pkey" not in line]
            assert any(f"Scan Backward using {index} " in line for line in scans), plan
            assert not any("Seq Scan" in line for line in plan), plan


async def postgres_plan(
    connection: AsyncConnection, wanted: RecordFilter, before: str | None
) -> list[str]:
    """How PostgreSQL runs a page."""
    driver = connection.sync_connection.connection.driver_connection
    assert driver is not None
    real = driver.execute
    plan: list[str] = []

    async def explained(statement: str, parameters: Any = None) -> Any:
        rows = await (await real(f"EXPLAIN {statement}", parameters)).fetchall()
        plan.extend(line for (line,) in rows)
        return await real(statement, parameters)

    driver.execute = explained
    try:
        await filtered_ids(connection, wanted, 50, before)
    finally:
        del driver.execute
    return plan
