"""Writers that wait for SQLite's one writer share a commit, and nothing else."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.exc import IntegrityError, PendingRollbackError
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.database import AuditLog

from solward.database import outbox, sqlite
from solward.database import sqlite as inline
from solward.database.database import Database
from solward.database.tables import switches
from solward.types.errors import StoreError
from solward.types.events import Event

pytestmark = pytest.mark.sqlite("its one writer")

COUNT = select(func.count()).select_from(switches)


class Disk:
    """Commits of SQLite, which wait while it is held up and fail while it is broken."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.commits = 0
        self.begun = asyncio.Event()
        self._free = threading.Event()
        self._free.set()
        self.error: sqlite3.Error | None = None

    def hold_up(self) -> None:
        self.begun.clear()
        self._free.clear()

    def go_on(self) -> None:
        self._free.set()

    def commit(self, connection: sqlite3.Connection) -> None:
        self.commits += 1
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self._free.wait(20)
        if self.error is not None:
            raise self.error
        sqlite3.Connection.commit(connection)


@pytest.fixture
async def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(
        inline.DriverConnection, "commit", lambda self: made.commit(self), raising=False
    )
    return made


@pytest.fixture
async def database(tmp_path: Path, disk: Disk) -> AsyncIterator[Database]:
    opened = await Database.open(None, tmp_path)
    disk.commits = 0
    yield opened
    await opened.close()


async def put(
    database: Database,
    scope: str,
    inside: Callable[[AsyncConnection], object] = lambda _connection: None,
) -> int:
    """Write a row and an event; how many rows there were before."""
    async with database.write() as connection:
        seen = int((await connection.execute(COUNT)).scalar_one())
        await connection.execute(insert(switches).values(scope=scope, frozen=True, changed_ms=1))
        outbox.record(connection, "x", {"scope": scope})
        inside(connection)
    return seen


def fail(error: Exception) -> Callable[[AsyncConnection], object]:
    def raise_it(_connection: AsyncConnection) -> None:
        raise error

    return raise_it


async def scopes(database: Database) -> list[str]:
    async with database.read() as connection:
        return sorted(await connection.scalars(select(switches.c.scope)))


async def told(database: Database) -> list[str]:
    """The scopes of the audit log's events, oldest first, once its chains are checked."""
    log = AuditLog(database)
    entries = await log.after(0, 1000)
    assert (await log.verify()).entries == len(entries)
    assert [each.seq for each in entries] == list(range(1, len(entries) + 1))
    return [text_.partition('":"')[2].removesuffix('"}') for text_ in (e.data for e in entries)]


async def behind_a_commit(database: Database, disk: Disk) -> asyncio.Task[int]:
    """A writer whose commit waits for the disk."""
    disk.hold_up()
    first = asyncio.create_task(put(database, "first"))
    await disk.begun.wait()
    return first


async def let_them_wait() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def grouped(database: Database, disk: Disk, *works: Coroutine[Any, Any, Any]) -> list[Any]:
    """What came of a writer, and of those that waited together until its commit was over."""
    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(work) for work in works]
    await let_them_wait()
    disk.go_on()
    return await asyncio.gather(first, *others, return_exceptions=True)


async def test_writers_that_wait_share_one_commit_in_their_order(
    database: Database, disk: Disk
) -> None:
    first = await behind_a_commit(database, disk)
    names = [f"w{number:02}" for number in range(50)]
    others = [asyncio.create_task(put(database, name)) for name in names]
    await let_them_wait()
    assert not first.done()
    disk.go_on()
    # Each saw all before it, and nothing of those behind it.
    assert await asyncio.gather(first, *others) == list(range(51))
    assert (disk.commits, database.commits) == (2, 1 + 2)  # one opened the database
    assert await told(database) == ["first", *names]


async def share_a_commit(database: Database, disk: Disk) -> None:
    """A commit of one writer, and one of two."""
    assert await grouped(database, disk, put(database, "second"), put(database, "third")) == [
        0,
        1,
        2,
    ]
    disk.commits = 0


async def test_after_a_commit_that_was_shared_those_of_one_moment_share_the_next(
    database: Database, disk: Disk
) -> None:
    await share_a_commit(database, disk)
    names = [f"w{number}" for number in range(5)]
    assert await asyncio.gather(*(put(database, name) for name in names)) == [*range(3, 8)]
    assert disk.commits == 1
    assert await told(database) == ["first", "second", "third", *names]


async def test_a_writer_alone_waits_for_nobody_before_its_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    committer = database._sqlite_writer._committer
    submit = committer.submit

    def note(commit: Callable[[], None]) -> Future[None]:
        order.append("commit")
        return submit(commit)

    monkeypatch.setattr(committer, "submit", note)
    loop = asyncio.get_running_loop()
    await put(database, "one", lambda _connection: loop.call_soon(order.append, "others"))
    assert order == ["commit", "others"]


@promise("shared-commits-are-whole")
@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined"])
async def test_cancelled_while_others_may_join_a_writer_hears_of_it_after_the_commit(
    database: Database, disk: Disk, joined: bool
) -> None:
    await share_a_commit(database, disk)
    disk.hold_up()
    one = asyncio.create_task(put(database, "one"))
    await asyncio.sleep(0)
    one.cancel()
    others = [asyncio.create_task(put(database, "other"))] if joined else []
    await disk.begun.wait()
    await let_them_wait()
    assert not one.done()
    disk.go_on()
    ends = await asyncio.gather(one, *others, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError, *(int for _ in others)]
    assert disk.commits == 1
    added = ["one", *("other" for _ in others)]
    assert await told(database) == ["first", "second", "third", *added]


@promise("shared-commits-are-whole")
async def test_no_writer_returns_before_the_disk_has_what_it_wrote(
    database: Database, disk: Disk, tmp_path: Path
) -> None:
    heard: list[Event] = []
    database.on_committed = heard.extend
    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(put(database, f"w{number}")) for number in range(3)]
    disk.begun.clear()
    disk.go_on()
    await first
    disk.hold_up()
    await disk.begun.wait()
    await let_them_wait()
    # All three blocks have run, and their one commit is under way.
    assert [each.done() for each in others] == [False] * 3
    assert await scopes(database) == ["first"]
    assert len(heard) == 1
    disk.go_on()
    await asyncio.gather(*others)
    assert len(heard) == 4
    with sqlite3.connect(tmp_path / "solward.db") as other:
        assert other.execute("SELECT count(*) FROM switches").fetchone() == (4,)
    other.close()


async def test_more_writers_than_one_commit_takes_are_all_written(
    database: Database, disk: Disk
) -> None:
    writers = (put(database, f"w{number}") for number in range(150))
    assert await grouped(database, disk, *writers) == [*range(151)]
    assert disk.commits == 1 + 3
    assert len(await told(database)) == 151


@promise("shared-commits-are-whole")
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_block_that_raises_takes_back_its_own_part_alone(
    database: Database, disk: Disk, place: int
) -> None:
    inside = [fail(ZeroDivisionError()) if n == place else lambda _c: None for n in range(3)]
    writers = (put(database, f"w{number}", each) for number, each in enumerate(inside))
    ends = await grouped(database, disk, *writers)
    assert isinstance(ends.pop(1 + place), ZeroDivisionError)
    assert ends == [0, 1, 2]
    kept = [f"w{number}" for number in range(3) if number != place]
    assert await scopes(database) == ["first", *kept]
    assert await told(database) == ["first", *kept]


async def test_a_constraint_in_a_group_is_its_own_writers_alone(
    database: Database, disk: Disk
) -> None:
    writers = (put(database, name) for name in ("a", "first", "a", "b"))
    ends = await grouped(database, disk, *writers)
    assert [type(end) for end in ends] == [int, int, IntegrityError, IntegrityError, int]
    assert await told(database) == ["first", "a", "b"]


async def test_all_blocks_that_raise_leave_nothing_to_commit(
    database: Database, disk: Disk
) -> None:
    writers = (put(database, f"w{number}", fail(ZeroDivisionError())) for number in range(3))
    ends = await grouped(database, disk, *writers)
    assert [type(end) for end in ends] == [int] + [ZeroDivisionError] * 3
    assert disk.commits == 1
    assert await told(database) == ["first"]


@promise("shared-commits-are-whole")
async def test_a_commit_that_fails_fails_every_block_and_nothing_is_told(
    database: Database, disk: Disk
) -> None:
    heard: list[Event] = []
    database.on_committed = heard.extend
    first = await behind_a_commit(database, disk)
    refused = fail(ZeroDivisionError())
    others = [
        asyncio.create_task(put(database, name, inside))
        for name, inside in (("a", lambda _c: None), ("b", refused), ("c", lambda _c: None))
    ]
    await let_them_wait()
    disk.begun.clear()
    disk.go_on()
    await first
    disk.error = sqlite3.OperationalError("disk I/O error")
    ends = await asyncio.gather(*others, return_exceptions=True)
    # Who refused had read what never happened, so its own reason is not the answer.
    assert [str(end) for end in ends] == ["The database refused: disk I/O error"] * 3
    assert {type(end) for end in ends} == {StoreError}
    assert [event.data["scope"] for event in heard] == ["first"]
    disk.error = None
    assert await put(database, "after") == 1
    assert await told(database) == ["first", "after"]


async def test_what_the_audit_log_refuses_fails_every_block(
    database: Database, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> list[int]:
        raise StoreError("no event")

    first = await behind_a_commit(database, disk)
    monkeypatch.setattr(outbox, "append_many", refuse)
    others = [asyncio.create_task(put(database, f"w{number}")) for number in range(3)]
    await let_them_wait()
    disk.go_on()
    ends = await asyncio.gather(first, *others, return_exceptions=True)
    assert [str(end) for end in ends] == ["0"] + ["no event"] * 3
    assert await scopes(database) == ["first"]
    assert disk.commits == 1


async def test_a_transaction_that_sqlite_takes_back_fails_every_block_of_it(
    database: Database, disk: Disk
) -> None:
    """As it does where the disk is full: a savepoint is gone with all the rest."""

    async def taken_back() -> None:
        async with database.write() as connection:
            await connection.exec_driver_sql("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

    ends = await grouped(database, disk, put(database, "a"), taken_back(), put(database, "b"))
    assert [str(end) for end in ends[1:3]] == ["The database refused: database or disk is full"] * 2
    assert ends[3] == 1
    assert await told(database) == ["first", "b"]


async def test_cancelled_while_it_waits_a_writer_writes_nothing_and_holds_up_nobody(
    database: Database, disk: Disk
) -> None:
    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(put(database, f"w{number}")) for number in range(4)]
    await let_them_wait()
    others[0].cancel()
    others[2].cancel()
    disk.go_on()
    ends = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(end) for end in ends] == [
        int,
        asyncio.CancelledError,
        int,
        asyncio.CancelledError,
        int,
    ]
    assert await told(database) == ["first", "w1", "w3"]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_cancelled_as_it_gets_its_turn_a_writer_hands_it_on(
    database: Database, disk: Disk, place: int
) -> None:
    first = await behind_a_commit(database, disk)
    others: list[asyncio.Task[int]] = []

    def cancel(_: object) -> None:
        # Its turn comes after this, and before its task runs again.
        asyncio.get_running_loop().call_soon(others[place].cancel)
        database.on_committed = None

    if place == 0:
        database.on_committed = cancel
    others += [
        asyncio.create_task(
            put(database, f"w{number}", cancel if number + 1 == place else lambda _c: None)
        )
        for number in range(3)
    ]
    await let_them_wait()
    disk.go_on()
    ends = await asyncio.gather(first, *others, return_exceptions=True)
    assert [isinstance(end, asyncio.CancelledError) for end in ends[1:]] == [
        number == place for number in range(3)
    ]
    kept = [f"w{number}" for number in range(3) if number != place]
    assert await told(database) == ["first", *kept]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_cancelled_during_the_commit_a_writer_hears_of_it_after_it(
    database: Database, disk: Disk, place: int
) -> None:
    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(put(database, f"w{number}")) for number in range(3)]
    await let_them_wait()
    disk.begun.clear()
    disk.go_on()
    await first
    disk.hold_up()
    await disk.begun.wait()
    for _ in range(2):
        others[place].cancel()
        await let_them_wait()
    assert not others[place].done()
    last = asyncio.create_task(put(database, "last"))
    disk.go_on()
    ends = await asyncio.gather(*others, last, return_exceptions=True)
    assert [isinstance(end, asyncio.CancelledError) for end in ends] == [
        number == place for number in range(4)
    ]
    assert await told(database) == ["first", "w0", "w1", "w2", "last"]


async def test_cancelled_in_its_block_a_writer_leaves_nothing_and_the_others_go_on(
    database: Database, disk: Disk
) -> None:
    inside = asyncio.Event()

    async def stand_still() -> None:
        async with database.write() as connection:
            await connection.execute(
                insert(switches).values(scope="still", frozen=True, changed_ms=1)
            )
            outbox.record(connection, "x", {"scope": "still"})
            inside.set()
            await asyncio.Event().wait()

    first = await behind_a_commit(database, disk)
    others = [
        asyncio.create_task(work)
        for work in (put(database, "a"), stand_still(), put(database, "b"))
    ]
    disk.go_on()
    await inside.wait()
    # What is not committed is seen by nobody.
    assert await scopes(database) == ["first"]
    others[1].cancel()
    ends = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(end) for end in ends] == [int, int, asyncio.CancelledError, int]
    assert await told(database) == ["first", "a", "b"]


@promise("shared-commits-are-whole")
async def test_a_reader_sees_all_blocks_of_a_commit_or_none(database: Database, disk: Disk) -> None:
    seen: set[int] = set()
    stop = asyncio.Event()

    async def look() -> None:
        while not stop.is_set():
            async with database.read() as connection:
                before = (await connection.execute(COUNT)).scalar_one()
                await asyncio.sleep(0)
                assert (await connection.execute(COUNT)).scalar_one() == before
            seen.add(int(before))

    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(put(database, f"w{number}")) for number in range(20)]
    looking = asyncio.create_task(look())
    await let_them_wait()
    disk.go_on()
    await asyncio.gather(first, *others)
    stop.set()
    await looking
    assert seen <= {0, 1, 21}


async def test_each_write_counts_as_a_transaction_and_each_commit_once(
    database: Database, disk: Disk
) -> None:
    kinds: list[str] = []
    database.on_transaction = kinds.append
    before = database.commits
    writers = (put(database, f"w{number}") for number in range(5))
    assert await grouped(database, disk, *writers) == [*range(6)]
    assert kinds == ["write"] * 6
    assert database.commits - before == 2


async def test_a_group_of_many_chains_is_three_statements_of_the_log(
    database: Database, disk: Disk
) -> None:
    statements: list[str] = []

    async def of_wallet(number: int) -> None:
        async with database.write() as connection:
            outbox.record(connection, "transaction:x", {"walletId": f"w{number % 3}"})

    await asyncio.gather(*(of_wallet(number) for number in range(3)))
    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(of_wallet(number)) for number in range(9)]
    await let_them_wait()
    writer = database._sqlite_writer._opened
    assert writer is not None
    disk.go_on()
    await first
    writer.driver.set_trace_callback(statements.append)
    await asyncio.gather(*others)
    assert len([each for each in statements if each.startswith("SELECT")]) == 1
    assert len([each for each in statements if each.startswith("INSERT INTO audit ")]) == 9
    assert len([each for each in statements if each.startswith("UPDATE audit_heads")]) == 3
    assert (await AuditLog(database).verify()).entries == 13


async def test_a_database_that_is_locked_for_too_long_fails_the_first_and_not_the_next(
    database: Database, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solward.database.sqlite.BUSY_TIMEOUT_S", 0.02)
    other = sqlite3.connect(tmp_path / "solward.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def refused(name: str) -> None:
        with pytest.raises(StoreError, match="database is locked"):
            await put(database, name)

    refusals = [asyncio.create_task(refused(f"r{number}")) for number in range(2)]
    await asyncio.gather(*refusals)
    other.execute("ROLLBACK")
    other.close()
    assert await put(database, "after") == 0


async def test_readers_that_wait_too_long_are_told_so_and_the_rest_go_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solward.database.sqlite._READER_WAIT_S", 0.05)
    go_on = asyncio.Event()

    async def stay() -> None:
        async with database.read() as connection:
            await connection.execute(text("SELECT 1"))
            await go_on.wait()

    staying = [asyncio.create_task(stay()) for _ in range(8)]
    await let_them_wait()
    with pytest.raises(StoreError, match="8 connections are in use"):
        await scopes(database)
    waiting = asyncio.create_task(scopes(database))
    await let_them_wait()
    waiting.cancel()
    go_on.set()
    await asyncio.gather(*staying)
    assert await scopes(database) == []


@promise("shared-commits-are-whole")
async def test_writers_return_in_their_order_before_the_next_commits_blocks_run(
    database: Database, disk: Disk
) -> None:
    """What each does in memory after its commit is in the order of what is stored."""
    order: list[str] = []

    async def work(name: str) -> None:
        await put(database, name, lambda _connection: order.append(f"{name} runs"))
        order.append(f"{name} returns")

    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(work(name)) for name in ("a", "b", "c")]
    await let_them_wait()
    disk.begun.clear()
    disk.go_on()
    await first
    disk.hold_up()
    await disk.begun.wait()
    others.append(asyncio.create_task(work("late")))
    await let_them_wait()
    disk.go_on()
    await asyncio.gather(*others)
    assert order == [
        *(f"{name} runs" for name in "abc"),
        *(f"{name} returns" for name in "abc"),
        "late runs",
        "late returns",
    ]


@pytest.mark.parametrize("place", [0, 1])
async def test_a_connection_that_a_block_lost_holds_up_nobody_after_it(
    database: Database, disk: Disk, place: int
) -> None:
    async def lose() -> None:
        async with database.write() as connection:
            await connection.invalidate()
            await connection.execute(COUNT)

    before = (put(database, "before") for _ in range(place))
    async with asyncio.timeout(5):
        ends = await grouped(database, disk, *before, lose(), put(database, "after"))
    assert all(isinstance(end, Exception) for end in ends[1:-1])
    assert ends[-1] == 1
    assert await told(database) == ["first", "after"]


async def test_a_connection_that_a_reader_lost_leaves_its_place_to_the_next(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_READER_WAIT_S", 0.05)

    async def lose() -> None:
        async with database.read() as connection:
            await connection.invalidate()
            await connection.execute(COUNT)

    for _ in range(20):
        with pytest.raises(PendingRollbackError):
            await lose()
    async with asyncio.timeout(5):
        assert await told(database) == []


async def test_a_transaction_that_cannot_be_rolled_back_is_ended_for_all(
    database: Database, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await behind_a_commit(database, disk)
    others = [asyncio.create_task(put(database, f"w{number}")) for number in range(2)]
    await let_them_wait()
    disk.begun.clear()
    disk.go_on()
    await first

    def refuse(_connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("no rollback")

    with monkeypatch.context() as broken:
        disk.error = sqlite3.OperationalError("disk I/O error")
        broken.setattr(inline.DriverConnection, "rollback", refuse, raising=False)
        async with asyncio.timeout(5):
            ends = await asyncio.gather(*others, return_exceptions=True)
    disk.error = None
    assert {type(end) for end in ends} == {StoreError}
    async with asyncio.timeout(5):
        assert await put(database, "after") == 1
    assert await told(database) == ["first", "after"]


async def test_what_took_the_transaction_back_is_told_to_others_as_the_databases_refusal(
    database: Database, disk: Disk
) -> None:
    async def taken_back() -> None:
        async with database.write() as connection:
            await connection.exec_driver_sql("ROLLBACK")
            raise KeyError("of this one's caller alone")

    ends = await grouped(database, disk, put(database, "a"), taken_back())
    assert [type(end) for end in ends] == [int, StoreError, StoreError]


async def test_the_log_line_of_an_event_names_who_recorded_it(
    database: Database, disk: Disk
) -> None:
    async def work(wallet: str, **fields: str) -> None:
        with bound_contextvars(**fields):
            async with database.write() as connection:
                data = {
                    "id": wallet,
                    "walletId": wallet,
                    "principal": "admin",
                    "type": "transfer",
                    "status": "pending",
                }
                outbox.record(connection, "transaction:pending", data)

    with capture_logs(processors=[merge_contextvars]) as logs:
        ends = await grouped(
            database,
            disk,
            work("a", request_id="ra"),
            work("b", request_id="rb", agent_id="agent-b"),
        )
    assert ends == [0, None, None]
    lines = [each for each in logs if each["event"] == "transaction_reserved"]
    assert [(each["wallet_id"], each["request_id"], each.get("agent_id")) for each in lines] == [
        ("a", "ra", None),
        ("b", "rb", "agent-b"),
    ]
