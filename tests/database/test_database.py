"""Transactions on a real database: all or nothing, one writer, nothing left half done."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.promises import promise

from solward.database import sqlite
from solward.database import sqlite as inline
from solward.database.database import Database, _run_to_end
from solward.database.tables import switches
from solward.types.errors import ConfigError, StoreError


async def put(connection: AsyncConnection, scope: str) -> None:
    await connection.execute(insert(switches).values(scope=scope, frozen=True, changed_ms=1))


async def put_all(database: Database, *scopes: str) -> None:
    async with database.write() as connection:
        for scope in scopes:
            await put(connection, scope)


async def scopes(database: Database) -> set[str]:
    async with database.read() as connection:
        return set(await connection.scalars(select(switches.c.scope)))


@pytest.mark.sqlite("the file")
async def test_a_written_transaction_is_on_disk_for_any_other_reader(
    database: Database, tmp_path: Path
) -> None:
    async with database.write() as connection:
        await put(connection, "one")
    with sqlite3.connect(tmp_path / "solward.db") as other:
        assert other.execute("SELECT scope FROM switches").fetchall() == [("one",)]
    other.close()


@promise("durable-before-sent")
@pytest.mark.sqlite("pragmas")
async def test_every_connection_is_durable_and_strict(database: Database) -> None:
    for begin in (database.read, database.write):
        async with begin() as connection:
            found = {
                name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
                for name in ("journal_mode", "synchronous", "foreign_keys", "temp_store")
            }
        assert found == {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "temp_store": 2,
        }


async def test_an_exception_rolls_everything_back(database: Database) -> None:
    async def work() -> None:
        async with database.write() as connection:
            await put(connection, "one")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        await work()
    assert await scopes(database) == set()


async def test_a_constraint_is_reported_as_such_and_rolls_back(database: Database) -> None:
    with pytest.raises(IntegrityError) as caught:
        await put_all(database, "one", "one")
    assert "one" not in str(caught.value)
    assert await scopes(database) == set()


@pytest.mark.sqlite("one writer at a time")
async def test_writers_take_turns_and_none_fails(database: Database) -> None:
    async def count_up() -> None:
        async with database.write() as connection:
            seen = (await connection.execute(select(func.count()).select_from(switches))).scalar()
            await asyncio.sleep(0)
            await put(connection, str(seen))

    await asyncio.gather(*(count_up() for _ in range(50)))
    assert await scopes(database) == {str(number) for number in range(50)}


async def test_a_reader_sees_one_state_while_a_writer_commits(database: Database) -> None:
    count = select(func.count()).select_from(switches)
    async with database.read() as reader:
        assert (await reader.execute(count)).scalar() == 0
        async with database.write() as writer:
            await put(writer, "one")
        assert (await reader.execute(count)).scalar() == 0
    assert await scopes(database) == {"one"}


async def test_many_readers_at_once_all_get_their_turn(database: Database) -> None:
    async def look() -> int:
        async with database.read() as connection:
            await asyncio.sleep(0)
            return (await connection.execute(text("SELECT 1"))).scalar_one()

    assert sum(await asyncio.gather(*(look() for _ in range(100)))) == 100


async def test_cancelled_before_its_end_a_transaction_leaves_nothing(database: Database) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with database.write() as connection:
            await put(connection, "one")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await scopes(database) == set()
    async with database.write() as connection:
        await put(connection, "two")
    assert await scopes(database) == {"two"}


def slow_commits(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, threading.Event]:
    """Set when a commit has begun in its thread; to be set for it to go on."""
    loop = asyncio.get_running_loop()
    committing, go_on = asyncio.Event(), threading.Event()

    def commit(self: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(committing.set)
        assert go_on.wait(10)
        sqlite3.Connection.commit(self)

    monkeypatch.setattr(inline.DriverConnection, "commit", commit, raising=False)
    return committing, go_on


@pytest.mark.sqlite("its committing thread; see test_database_postgres.py")
async def test_cancelled_during_its_commit_the_next_writer_finds_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Database.open(None, tmp_path)
    committing, go_on = slow_commits(monkeypatch)
    first = asyncio.create_task(put_all(database, "one"))
    await committing.wait()
    first.cancel()
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.create_task(put_all(database, "two"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not first.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert await scopes(database) == {"one", "two"}
    await database.close()


@pytest.mark.sqlite("its committing thread; see test_database_postgres.py")
async def test_a_timeout_during_the_commit_is_one_and_hits_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Database.open(None, tmp_path)
    committing, go_on = slow_commits(monkeypatch)

    async def write() -> None:
        async with asyncio.timeout(None) as limit:
            committed = asyncio.create_task(committing.wait())
            committed.add_done_callback(lambda _: limit.reschedule(0))
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            await put_all(database, "one")

    with pytest.raises(TimeoutError):
        await write()
    await asyncio.sleep(0)
    await put_all(database, "two")
    assert await scopes(database) == {"one", "two"}
    await database.close()


async def test_transactions_can_be_counted(database: Database) -> None:
    counted: Counter[str] = Counter()
    database.on_transaction = lambda kind: counted.update([kind])
    async with database.write() as connection:
        await put(connection, "one")
    await scopes(database)
    await scopes(database)
    assert counted == {"write": 1, "read": 2}


@pytest.mark.sqlite("its lock")
async def test_another_process_holding_the_lock_is_waited_for(
    database: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "solward.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def work() -> None:
        async with database.write() as connection:
            await put(connection, "one")

    waiting = asyncio.create_task(work())
    # The loop stays free for others: a reader gets through meanwhile.
    assert await scopes(database) == set()
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await waiting
    assert await scopes(database) == {"one"}


@pytest.mark.sqlite("its lock")
async def test_a_lock_never_given_up_is_a_store_error(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.02)
    other = sqlite3.connect(tmp_path / "solward.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="database is locked"):
        async with database.write():
            raise AssertionError("never entered")
    other.close()
    async with database.write() as connection:
        await put(connection, "one")


@promise("no-write-no-send")
@pytest.mark.sqlite("pragmas")
async def test_a_full_disk_is_a_store_error_and_writes_nothing(database: Database) -> None:
    async with database.write() as connection:
        pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
        await connection.execute(text(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreError, match="full"):
        await put_all(database, "small", "x" * 200_000)
    assert await scopes(database) == set()


@pytest.mark.sqlite("the file")
async def test_after_a_close_and_open_everything_is_there(tmp_path: Path) -> None:
    first = await Database.open(None, tmp_path)
    async with first.write() as connection:
        await put(connection, "one")
    await first.close()
    second = await Database.open(f"sqlite:///{tmp_path / 'solward.db'}", tmp_path)
    assert await scopes(second) == {"one"}
    await second.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("not a url canary", "expected an address such as"),
        ("sqlite://", "not a database in memory"),
        ("sqlite:///:memory:", "not a database in memory"),
        ("sqlite:////canary.db?uri=true", "not a URI"),
        ("sqlite:///file:canary.db", "not a URI"),
        ("mysql://user:canary@db/x", "expected sqlite or postgresql, not mysql"),
    ],
)
async def test_an_unusable_url_is_refused_without_showing_it(
    tmp_path: Path, url: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        await Database.open(url, tmp_path)
    assert "canary" not in str(caught.value)


@pytest.mark.sqlite("the file")
async def test_a_file_that_is_no_database_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "solward.db").write_bytes(b"no database at all, but long enough" * 100)
    with pytest.raises(StoreError, match="not a database"):
        await Database.open(None, tmp_path)


@pytest.mark.sqlite("the file")
async def test_a_folder_that_is_missing_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open"):
        await Database.open(None, tmp_path / "missing")


@pytest.mark.sqlite("the file")
async def test_the_file_is_its_owners(database: Database, tmp_path: Path) -> None:
    for path in tmp_path.glob("solward.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_what_must_end_ends_before_its_cancelled_caller_goes_on() -> None:
    go_on, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        ended.set()

    caller = asyncio.create_task(_run_to_end(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    assert not caller.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()
