"""Changing grants and the address book: by version, recorded, and never a fresh start."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import insert, select
from tests.promises import promise
from tests.support.grants import grant, limit

from solward.database.database import Database, lock_shared
from solward.database.tables import audit, judged_effects, reservations
from solward.operations.policies.changes import read_policy, replace_policy, replace_set
from solward.support import jsontext
from solward.support.durations import DAY_MS, MINUTE_MS
from solward.types.errors import PolicyChanged
from solward.types.guardrail import Line, Operation
from solward.vault.grants import judged as judged_form
from solward.vault.grants.judged import ALLOWED, JudgedCase
from solward.vault.grants.model import Case
from solward.vault.store import spending, window_sums
from solward.vault.store.window_sums import WindowSum

WHO = "agent:a"
MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SHOP = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
OTHER = "4Nd1mYabcdefghijkmnopqrstuvwxyzABCDEFGHJKLMN"


async def entries(database: Database) -> list[Mapping[str, Any]]:
    async with database.read() as connection:
        rows = await connection.execute(
            select(audit.c.data).where(audit.c.event == "policy:changed").order_by(audit.c.seq)
        )
        return [jsontext.loads(data) for data in rows.scalars()]


async def test_a_policy_is_replaced_as_a_whole(database: Database) -> None:
    one, two = grant(WHO, SOL=limit("SOL", 5)), grant("key:k", **{MINT: limit(MINT, 7)})
    book = {"shops": (SHOP, OTHER)}
    assert await replace_policy(database, {WHO: [one], "key:k": [two], "key:r": []}, book) == 1
    async with database.read() as connection:
        found = await read_policy(connection)
    assert (found.version, found.sets) == (1, {WHO: (one,), "key:k": (two,), "key:r": ()})
    assert {name: set(each) for name, each in found.book.items()} == {"shops": set(book["shops"])}
    assert await replace_policy(database, {WHO: [one]}, {}, if_version=1) == 2
    async with database.read() as connection:
        found = await read_policy(connection)
    assert (found.version, found.sets, found.book) == (2, {WHO: (one,)}, {})
    whose = [(each["who"], each["before"], each["after"]) for each in await entries(database)]
    changed = [who for who, _, _ in whose]
    assert changed == ["book", WHO, "key:k", "key:r", "book", "key:k", "key:r"]
    assert whose[3] == ("key:r", {"grants": None}, {"grants": []})
    assert whose[5][1]["grants"][0]["id"] == two.id
    assert whose[5][2] == {"grants": None}


async def test_a_change_for_another_version_is_refused_and_changes_nothing(
    database: Database,
) -> None:
    await replace_set(database, WHO, [grant(WHO, SOL=limit("SOL", 5))], if_version=0)
    for change in (
        replace_set(database, WHO, None, if_version=0),
        replace_policy(database, {}, {}, if_version=2),
    ):
        with pytest.raises(PolicyChanged, match="version 1 is in force"):
            await change
    async with database.read() as connection:
        found = await read_policy(connection)
    assert (found.version, list(found.sets), found.book) == (1, [WHO], {})


@promise("new-grant-resets-nothing", "grant-change-waits")
async def test_a_change_waits_for_reservations_that_were_judged_without_it(
    postgres_url: str, tmp_path: Any
) -> None:
    database = await Database.open(postgres_url, tmp_path)
    try:
        async with database.write() as connection:
            await lock_shared(connection, spending.SERVICE_SCOPE)
            change = asyncio.create_task(replace_set(database, WHO, []))
            _done, waiting = await asyncio.wait({change}, timeout=0.3)
            assert waiting
        assert await change == 1
    finally:
        await database.close()


# What a new grant starts with.


class Past:
    """Transactions of agent a with wallet w, judged and reserved."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.count = 0

    async def now_ms(self) -> int:
        async with self.database.read() as connection:
            return (await self.database.moment(connection)).window_ms

    async def pay(
        self,
        units: int,
        *,
        asset: str = MINT,
        to: str = SHOP,
        age_ms: int = 0,
        kept: int | None = None,
        operation: Operation = Operation.TRANSFER,
        via: tuple[str, ...] = (),
    ) -> None:
        """Args:
        kept: of its units still count.
        """
        self.count += 1
        id_, at = f"t{self.count}", await self.now_ms() - age_ms
        line = Line(operation, asset, units, to, to, 6)
        lines = (line,) if units else ()
        case = Case("w", ("wallet:w", WHO, *via), lines, 5_000, (at, at))
        counted = {"SOL": 0, "COSTS": 5_000, asset: units if kept is None else kept}
        async with self.database.write() as connection:
            row = judged_form.to_row(JudgedCase(id_, "transfer", case, ALLOWED, 0))
            await connection.execute(insert(judged_effects), [row])
            await spending.reserve(connection, id_, ["wallet:w", WHO], counted, at)

    async def counted(self, of: Any, asset: str = MINT, length_ms: int = DAY_MS) -> WindowSum:
        async with self.database.read() as connection:
            need = (of.scope, asset, length_ms)
            return (await window_sums.sum_windows(connection, [need], await self.now_ms()))[need]


@pytest.fixture
def past(database: Database) -> Past:
    return Past(database)


@promise("grant-change-waits")
async def test_a_new_grant_starts_with_what_it_would_have_covered(past: Past) -> None:
    made = grant(WHO, to=(SHOP,), **{MINT: limit(MINT, 100)})
    await past.pay(10)
    await past.pay(20, to=OTHER)
    await past.pay(30, asset=OTHER)
    await past.pay(40, operation=Operation.BURN)
    await past.pay(5, age_ms=DAY_MS + MINUTE_MS)
    await past.pay(7, age_ms=DAY_MS - MINUTE_MS)
    await replace_set(past.database, WHO, [made])
    assert await past.counted(made) == WindowSum(17, 2)
    assert await past.counted(made, "COSTS") == WindowSum(10_000, 2)
    # A rate counts transactions.
    assert (await past.counted(made, "SOL")).transactions == 2


@promise("sites-share-one-grant")
async def test_a_new_grant_with_sites_starts_with_what_they_were_paid_and_gives_nothing_back(
    past: Past,
) -> None:
    limits = {MINT: limit(MINT, 100)}
    one, other = "site:a.example", "site:b.example"
    await past.pay(10, operation=Operation.PAY, via=(one,))
    await past.pay(20, operation=Operation.PAY, via=(other,))
    await past.pay(40)
    # Takes nothing: of grants for every site alone.
    await past.pay(0)
    pay = [Operation.PAY]
    narrow = grant(WHO, pay, via=(one,), **limits)
    both = grant(WHO, pay, via=(one, other), **limits)
    every = grant(WHO, pay, **limits)
    for made, units, count in ((narrow, 10, 1), (both, 30, 2), (every, 30, 2)):
        await replace_set(past.database, WHO, [made])
        assert await past.counted(made) == WindowSum(units, count)
    assert (await past.counted(narrow, "SOL")).transactions == 1
    assert (await past.counted(every, "SOL")).transactions == 3


@promise("grant-change-waits")
@pytest.mark.parametrize(
    ("who", "other"),
    [
        ("site:a.example", "site:a.example:8443"),
        ("skill:pay_request", "skill:pay-request"),
        ("plugin:acme", "plugin:Acme"),
    ],
)
async def test_what_others_moved_through_a_site_a_skill_or_a_plugin_counts_in_its_new_grant(
    past: Past, who: str, other: str
) -> None:
    await past.pay(10, operation=Operation.PAY, via=("skill:first", who))
    await past.pay(20, operation=Operation.PAY, via=(other,))
    await past.pay(40, operation=Operation.PAY, via=(who,), age_ms=2 * DAY_MS)
    made = grant(who, [Operation.PAY], **{MINT: limit(MINT, 100)})
    for grants in ([made], [], [made]):
        await replace_set(past.database, who, grants)
    assert await past.counted(made) == WindowSum(10, 1)


@promise("grant-change-waits")
async def test_writing_a_grant_anew_or_another_beside_it_gives_back_nothing(past: Past) -> None:
    made = grant(WHO, **{MINT: limit(MINT, 100)})
    await replace_set(past.database, WHO, [made])
    await past.pay(60)
    for grants in (None, [made], [], [made], [structs.replace(made, id="other"), made]):
        await replace_set(past.database, WHO, grants)
        for each in grants or ():
            assert (await past.counted(each)).units in (0, 60)
    assert await past.counted(made) == WindowSum(60, 1)
    assert await past.counted(structs.replace(made, id="other")) == WindowSum(60, 1)


async def test_a_grant_that_stays_keeps_what_it_counted(past: Past) -> None:
    made, more = grant(WHO, **{MINT: limit(MINT, 100)}), grant(WHO, SOL=limit("SOL", 1))
    await replace_set(past.database, WHO, [made])
    async with past.database.write() as connection:
        rows = [(made.scope, MINT, 33)]
        await spending.reserve(connection, "t", [], {}, await past.now_ms(), rows)
    await replace_set(past.database, WHO, [more, made])
    assert await past.counted(made) == WindowSum(33, 1)


async def test_what_was_released_or_lowered_counts_for_no_new_grant(past: Past) -> None:
    made = grant(WHO, **{MINT: limit(MINT, 100)})
    await past.pay(60, kept=25)
    await past.pay(10)
    async with past.database.write() as connection:
        await connection.execute(reservations.delete().where(reservations.c.transaction_id == "t2"))
    await replace_set(past.database, WHO, [made])
    assert await past.counted(made) == WindowSum(25, 1)
