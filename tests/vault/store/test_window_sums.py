"""What a grant has counted in a window: exact at its edges, by rows and by hourly totals."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.promises import promise
from tests.support.database import OF_NEEDS, query_plans

from solward.database.database import Database
from solward.database.tables import FOUND_BY, reservation_totals, reservations
from solward.support.durations import DAY_MS, HOUR_MS, MINUTE_MS
from solward.vault.store import grants, recipients, spending, window_sums
from solward.vault.store import transactions as transaction_store
from solward.vault.store.spending import Usage
from solward.vault.store.window_sums import WindowSum

SCOPE = "grant:agent:a#1"
MINT = "So11111111111111111111111111111111111111112"
# Within an hour, so that a window of a minute begins in the hour in which it ends, or not.
NOW = 500_000 * HOUR_MS + 20 * MINUTE_MS
LENGTHS = (MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, 7 * HOUR_MS + MINUTE_MS, DAY_MS, 30 * DAY_MS)

Row = tuple[int, int]


async def reserve(connection: AsyncConnection, rows: Iterable[Row], scope: str = SCOPE) -> None:
    """Each a stamp and units."""
    await connection.execute(
        insert(reservations),
        [
            {
                "transaction_id": f"{scope} {number} {created}",
                "scope": scope,
                "asset": MINT,
                "created_ms": created,
                "units": units,
            }
            for number, (created, units) in enumerate(rows)
        ],
    )


async def sums(database: Database, now_ms: int = NOW) -> dict[int, WindowSum]:
    async with database.read() as connection:
        found = await window_sums.sum_windows(
            connection, [(SCOPE, MINT, each) for each in LENGTHS], now_ms
        )
        [used] = (await spending.usage(connection, [SCOPE], [MINT], now_ms)).values()
    # What limits read of a day.
    assert used.units_last_day.get(MINT, 0) == found[SCOPE, MINT, DAY_MS].units
    return {length: counted for (_, _, length), counted in found.items()}


def by_hand(rows: Iterable[Row], now_ms: int = NOW) -> dict[int, WindowSum]:
    kept = list(rows)
    inside = {each: [n for at, n in kept if at > now_ms - each] for each in LENGTHS}
    return {each: WindowSum(sum(found), len(found)) for each, found in inside.items()}


@promise("clock-empties-no-window")
async def test_a_window_holds_what_is_younger_than_its_length_and_nothing_else(
    database: Database,
) -> None:
    edges = [NOW - each + step for each in LENGTHS for step in (-1, 0, 1)]
    # Where rows end and totals begin.
    edges += [(at // HOUR_MS + 1) * HOUR_MS + step for at in edges[1::3] for step in (-1, 0)]
    rows = [(at, 2**number) for number, at in enumerate(edges)]
    async with database.write() as connection:
        await reserve(connection, rows)
    assert await sums(database) == by_hand(rows)


@pytest.mark.parametrize("seed", range(3))
async def test_sums_are_those_of_the_rows_whatever_was_lowered_and_released(
    database: Database, seed: int
) -> None:
    chance = random.Random(seed)
    rows = {
        f"{SCOPE} {number} {at}": (at, chance.randrange(2**40))
        for number, at in enumerate(
            NOW - chance.choice((chance.randrange(2 * HOUR_MS), chance.randrange(31 * DAY_MS)))
            for _ in range(200)
        )
    }
    async with database.write() as connection:
        await reserve(connection, rows.values())
        for id_ in chance.sample(sorted(rows), 60):
            at, units = rows[id_]
            here = reservations.c.transaction_id == id_
            if chance.random() < 0.5:
                del rows[id_]
                await connection.execute(delete(reservations).where(here))
            else:
                rows[id_] = (at, units // 3)
                await connection.execute(update(reservations).where(here).values(units=units // 3))
    assert await sums(database) == by_hand(rows.values())
    for later in (1, MINUTE_MS, 3 * HOUR_MS, 40 * DAY_MS):
        assert await sums(database, NOW + later) == by_hand(rows.values(), NOW + later)


@pytest.mark.parametrize("scope", ["wallet:w", "agent:a", "key:k"])
async def test_a_limit_counts_the_transactions_of_a_minute_and_the_units_of_a_day(
    database: Database, scope: str
) -> None:
    edges = [NOW - length + step for length in (MINUTE_MS, HOUR_MS, DAY_MS) for step in (-1, 0, 1)]
    async with database.write() as connection:
        for number, at in enumerate((*edges, NOW)):
            units = {"SOL": 10**number, "COSTS": 3, MINT: 7}
            await spending.reserve(connection, f"t{number}", [scope, "wallet:x"], units, at)
        await spending.add_costs(connection, "t9", 5)
        used = await spending.usage(connection, [scope, "wallet:none"], [MINT], NOW)
    # Of the edge of a day, what is a millisecond younger; of that of a minute, and now.
    units_last_day = {"SOL": sum(10**n for n in (0, 1, 2, 3, 4, 5, 8, 9)), "COSTS": 29, MINT: 56}
    assert used == {scope: Usage(2, units_last_day), "wallet:none": Usage(0, {})}


async def test_no_sum_overflows(database: Database) -> None:
    rows = [(NOW - 2 * HOUR_MS - each, 2**63 - 1) for each in range(5)] + [(NOW, 2**63 - 1)]
    async with database.write() as connection:
        await reserve(connection, rows)
    assert (await sums(database))[DAY_MS] == WindowSum(6 * (2**63 - 1), 6)


async def test_what_a_transaction_is_only_found_by_has_no_totals(database: Database) -> None:
    found_by = [f"{each}x" for each in FOUND_BY]
    async with database.write() as connection:
        await spending.reserve(connection, "t", ["wallet:w", *found_by, SCOPE], {"SOL": 5}, NOW)
        rows = await connection.execute(
            select(reservation_totals.c.scope, reservation_totals.c.low)
        )
        assert rows.all() == [(SCOPE, 5), ("wallet:w", 5)]
        for scope in found_by:
            with pytest.raises(ValueError, match="no windows"):
                await spending.usage(connection, [scope], [], NOW)


async def test_many_sums_of_other_grants_do_not_mix(database: Database) -> None:
    scopes = [f"grant:agent:a#{number}" for number in range(100)]
    async with database.write() as connection:
        for number, scope in enumerate(scopes):
            await reserve(connection, [(NOW - 5 * HOUR_MS, number), (NOW - 1, 1)], scope)
        needs = [(scope, MINT, length) for scope in scopes for length in (HOUR_MS, DAY_MS)]
        found = await window_sums.sum_windows(connection, [*needs, (SCOPE, "SOL", DAY_MS)], NOW)
    assert found.pop((SCOPE, "SOL", DAY_MS)) == WindowSum()
    assert found == {
        (scope, MINT, length): WindowSum(
            1 + (number if length == DAY_MS else 0), 1 + (length > HOUR_MS)
        )
        for number, scope in enumerate(scopes)
        for length in (HOUR_MS, DAY_MS)
    }


@pytest.mark.parametrize("seed", range(5))
async def test_there_is_room_as_soon_as_enough_has_left_and_not_before(
    database: Database, seed: int
) -> None:
    chance = random.Random(seed)
    length = chance.choice(LENGTHS)
    rows = [(NOW - chance.randrange(length), chance.randrange(1, 100)) for _ in range(50)]
    used = by_hand(rows)[length]
    excess = chance.randrange(1, used.units)
    gone = chance.randrange(1, used.transactions)
    async with database.write() as connection:
        await reserve(connection, rows)
        at = await window_sums.room_at(connection, SCOPE, MINT, length, excess, NOW)
        counted = await window_sums.room_at(
            connection, SCOPE, MINT, length, gone, NOW, transactions=True
        )
        assert (
            await window_sums.room_at(connection, SCOPE, MINT, length, used.units + 1, NOW) is None
        )
    assert at is not None
    assert counted is not None
    assert by_hand(rows, at)[length].units <= used.units - excess
    assert by_hand(rows, at - 1)[length].units > used.units - excess
    assert by_hand(rows, counted)[length].transactions <= used.transactions - gone
    assert by_hand(rows, counted - 1)[length].transactions > used.transactions - gone


@pytest.mark.sqlite("its query plans")
async def test_a_sum_searches_indexes(database: Database) -> None:
    async def asked(connection: AsyncConnection) -> None:
        await window_sums.sum_windows(connection, [(SCOPE, MINT, DAY_MS)], NOW)
        await window_sums.room_at(connection, SCOPE, MINT, DAY_MS, 1, NOW)
        await spending.usage(connection, ["wallet:w", "key:k"], [MINT], NOW)
        await transaction_store.launched(connection, "w", [MINT])
        await recipients.paid_before(connection, "w", [MINT])
        await recipients.note_paid(connection, "w", [MINT], "t")
        await recipients.own_wallets(connection, [MINT])
        await grants.sets_of(connection, ["agent:a", "wallet:w"])

    steps = [step for _, plan in await query_plans(database, asked) for step in plan]
    searched = [step for step in steps if step.startswith("SEARCH")]
    assert any("ix_reservations_scope_asset" in step for step in searched)
    assert any("totals USING PRIMARY KEY" in step and "hour>?" in step for step in searched)
    # Of the rows one hour, however much happened in the day.
    assert any(
        "USING COVERING INDEX" in s and "created_ms>? AND created_ms<?" in s for s in searched
    )
    assert any("ix_transactions_launches" in step for step in searched)
    assert [s for s in steps if s.startswith("SCAN") and not s.startswith(OF_NEEDS)] == []
