"""The audit log written by many at once on PostgreSQL: one order without gaps, chains apart."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.support.database import AuditLog, statements_of

from solward.audit.log import AuditEntry
from solward.database import outbox
from solward.database.database import Database

pytestmark = pytest.mark.more

WRITERS = 8
EACH = 60
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def database(postgres_database: Database) -> Database:
    return postgres_database


async def append(database: Database, chain: str, data: object = None) -> int:
    async with database.write() as connection:
        (seq,) = await outbox.append_many(connection, 1, [(chain, "x", data)])
    return seq


async def read(database: Database, after: int = 0) -> list[AuditEntry]:
    return await AuditLog(database).after(after, 1000)


async def test_a_reader_beside_many_writers_misses_nothing_and_never_goes_back(
    database: Database,
) -> None:
    """By its number alone it reads all that eight connections write, each entry once."""
    chance = random.Random(7)
    told: list[tuple[str, int]] = []
    got: list[AuditEntry] = []

    async def write(writer: int) -> None:
        for number in range(EACH):
            chain = chance.choice(["", "agent:shared", f"wallet:{writer}"])
            async with database.write() as connection:
                # Numbered early, appended late, committed later still.
                await connection.execute(text("SELECT pg_current_xact_id()"))
                await asyncio.sleep(chance.random() * 0.004)
                events = [(chain, "x", [writer, number, part]) for part in range(1 + number % 3)]
                await outbox.append_many(connection, 1, events)
                await asyncio.sleep(chance.random() * 0.004)
            told.extend((chain, part) for part in range(1 + number % 3))

    async def follow(writing: asyncio.Task[object]) -> None:
        while True:
            ended = writing.done()
            page = await read(database, got[-1].seq if got else 0)
            got.extend(page)
            if ended and not page:
                return

    writing = asyncio.ensure_future(asyncio.gather(*map(write, range(WRITERS))))
    await follow(writing)
    await writing
    assert len(got) == len(told) == len({entry.hash for entry in got})
    assert all(one.seq < next_.seq for one, next_ in pairwise(got))
    log = await AuditLog(database).verify()
    assert log.entries == len(told)
    assert {chain: head.number for chain, head in log.heads.items()} == {
        chain: sum(of == chain for of, _ in told) for chain in {of for of, _ in told}
    }


async def test_a_reader_stops_before_a_transaction_that_is_still_open(database: Database) -> None:
    first = await append(database, "wallet:a")
    async with database.write() as connection:
        (early,) = await outbox.append_many(connection, 1, [("wallet:b", "x", None)])
        late = await append(database, "wallet:c")
        assert early < late
        assert [entry.seq for entry in await read(database)] == [first]
        assert [entry.seq for entry in await AuditLog(database).latest()] == [first]
        assert await AuditLog(database).end() == first
        assert (await AuditLog(database).verify()).entries == 2
    assert [entry.seq for entry in await read(database, first)] == [early, late]
    assert await AuditLog(database).end() == late


async def test_what_is_rolled_back_holds_nothing_up(database: Database) -> None:
    async def undone() -> None:
        async with database.write() as connection:
            await outbox.append_many(connection, 1, [("wallet:a", "x", 1), ("", "x", 1)])
            await append(database, "wallet:b")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await undone()
    await append(database, "wallet:a")
    assert [(each.chain, each.number) for each in await read(database)] == [
        ("wallet:b", 1), ("wallet:a", 1)
    ]  # fmt: skip
    assert set((await AuditLog(database).verify()).heads) == {"wallet:a", "wallet:b"}


async def test_writers_of_one_chain_wait_for_each_other_also_for_its_first_entry(
    database: Database,
) -> None:
    for number in (1, 3):
        async with database.write() as connection:
            await outbox.append_many(connection, 1, [("wallet:a", "x", number)])
            other = asyncio.create_task(append(database, "wallet:a", number + 1))
            async with asyncio.timeout(10):
                while not await waiting(database):
                    assert not other.done()
        await other
    entries = await read(database)
    assert [(each.number, each.data) for each in entries] == [
        (number, str(number)) for number in range(1, 5)
    ]
    assert (await AuditLog(database).verify()).entries == 4


async def waiting(database: Database) -> int:
    async with database.read() as connection:
        return int((await connection.execute(text(WAITING))).scalar_one())


async def test_writers_of_different_chains_do_not_wait_for_each_other(database: Database) -> None:
    chains = ["", "wallet:a", "wallet:b", "agent:a", "agent:b"]
    for _again in range(2):
        async with AsyncExitStack() as open_, asyncio.timeout(10):
            for chain in chains:
                connection = await open_.enter_async_context(database.write())
                await outbox.append_many(connection, 1, [(chain, "x", None)])
    log = await AuditLog(database).verify()
    assert {chain: head.number for chain, head in log.heads.items()} == dict.fromkeys(chains, 2)


async def test_numbers_go_on_rising_in_a_cluster_with_lower_transaction_ids(
    database: Database, postgres_url: str, tmp_path: Path
) -> None:
    """As after a restore of a dump: the log's numbers are far above what ids here give."""
    async with database.write() as connection:
        await connection.execute(text("UPDATE audit_offset SET value = 1 << 40"))
    high = [await append(database, chain) for chain in ("wallet:a", "wallet:b", "wallet:a")]
    async with database.write() as connection:
        await connection.execute(text("UPDATE audit_offset SET value = 0"))
    await database.close()
    for _start in range(2):
        reopened = await Database.open(postgres_url, tmp_path)
        high += [await append(reopened, "wallet:a"), await append(reopened, "")]
        assert high == sorted(set(high))
        assert [entry.seq for entry in await read(reopened)] == high
        assert [entry.seq for entry in await read(reopened, high[2])] == high[3:]
        assert (await AuditLog(reopened).verify()).entries == len(high)
        async with reopened.read() as reading:
            offset = (await reading.execute(text("SELECT value FROM audit_offset"))).scalar_one()
        await reopened.close()
        assert offset < high[-1] < 1 << 42


async def test_starting_again_leaves_the_numbers_as_they_are(
    database: Database, postgres_url: str, tmp_path: Path
) -> None:
    await append(database, "wallet:a")
    await (await Database.open(postgres_url, tmp_path)).close()
    async with database.read() as connection:
        assert (await connection.execute(text("SELECT value FROM audit_offset"))).scalar_one() == 0


async def test_events_of_many_chains_are_appended_by_as_many_statements_as_one(
    database: Database,
) -> None:
    async def statements(chains: list[str]) -> list[str]:
        async with statements_of(database) as seen, database.write() as connection:
            await outbox.append_many(connection, 1, [(chain, "x", chain) for chain in chains])
        return seen

    chains = [f"agent:{number}" for number in range(20)]
    await statements(chains)
    many, one = await statements(chains), await statements(chains[:1])
    writing = [each.split()[0] for each in one if "audit" in each and "SELECT" not in each[:6]]
    assert writing == ["INSERT", "UPDATE"]
    assert len(many) == len(one)
    # The driver's own way with many rows is a statement for each.
    assert sum("json_to_recordset" in each for each in many) == 2
