"""The audit log of a process, and the outbox of its write transactions."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest
from tests.support.database import AuditLog, audit_places

from solward.database import outbox, sqlite
from solward.database.database import Database
from solward.types.errors import AuditBroken, StoreError
from solward.types.events import EventBus


@pytest.fixture
def bus(database: Database) -> EventBus:
    made = EventBus()
    database.on_committed = made.publish_stored
    return made


async def test_what_is_appended_is_stored_then_published_with_its_number(
    database: Database, bus: EventBus
) -> None:
    log = AuditLog(database)
    with bus.subscribe() as heard:
        await log.append("freeze", {"reason": "test"})
        event = await heard.next()
    assert event is not None
    assert await audit_places(database, event.seq) == [1]
    assert (event.event, event.data) == ("freeze", {"reason": "test"})
    (entry,) = await log.latest()
    assert (entry.seq, entry.event, entry.data) == (event.seq, "freeze", '{"reason":"test"}')
    assert entry.created_ms == event.ms
    assert (await log.verify()).entries == 1


async def test_the_events_of_a_transaction_are_one_run_in_their_order(
    database: Database, bus: EventBus
) -> None:
    log = AuditLog(database)
    await log.append("before", None)
    with bus.subscribe() as heard:
        async with database.write() as connection:
            for number in range(3):
                outbox.record(connection, "x", number)
            early = asyncio.create_task(heard.next())
            await asyncio.sleep(0)
            assert not early.done()
        assert (await early) is not None
        bus.close()
        rest = [each async for each in heard]
    assert [each.data for each in rest] == [1, 2]
    assert rest[1].seq == rest[0].seq + 1
    assert await audit_places(database, *(each.seq for each in rest)) == [3, 4]
    assert (await log.verify()).entries == 4


async def test_what_is_rolled_back_is_neither_kept_nor_told(
    database: Database, bus: EventBus
) -> None:
    async def undone() -> None:
        async with database.write() as connection:
            outbox.record(connection, "x", None)
            raise RuntimeError

    with bus.subscribe() as heard:
        with pytest.raises(RuntimeError):
            await undone()
        async with database.write():
            pass
        bus.close()
        assert [event async for event in heard] == []
    assert await AuditLog(database).latest() == []


async def test_a_read_transaction_tells_nothing(database: Database) -> None:
    async with database.read() as connection:
        with pytest.raises(RuntimeError, match="outside a write transaction"):
            outbox.record(connection, "x", None)


@pytest.mark.sqlite("its committing thread")
async def test_a_caller_cancelled_in_the_commit_has_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    committing, go_on = asyncio.Event(), threading.Event()
    database, bus = await Database.open(None, tmp_path), EventBus()
    database.on_committed = bus.publish_stored

    def commit(self: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(committing.set)
        assert go_on.wait(10)
        sqlite3.Connection.commit(self)

    monkeypatch.setattr(sqlite.DriverConnection, "commit", commit, raising=False)
    with bus.subscribe() as heard:
        task = asyncio.create_task(AuditLog(database).append("x", None))
        await committing.wait()
        early = asyncio.create_task(heard.next())
        await asyncio.sleep(0)
        assert not early.done()
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        event = await early
    assert event is not None
    assert event.seq == 1
    assert (await AuditLog(database).verify()).entries == 1
    await database.close()


@pytest.mark.sqlite("its committing thread")
async def test_what_is_not_committed_is_not_told(
    database: Database, bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(_connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sqlite.DriverConnection, "commit", commit, raising=False)
    with bus.subscribe() as heard:
        with pytest.raises(StoreError, match="disk I/O error"):
            await AuditLog(database).append("x", None)
        bus.close()
        assert [event async for event in heard] == []
    monkeypatch.undo()
    assert (await AuditLog(database).verify()).entries == 0


async def test_concurrent_appends_make_one_chain(database: Database, bus: EventBus) -> None:
    log = AuditLog(database)
    with bus.subscribe() as heard:
        await asyncio.gather(*(log.append("x", {"n": n}) for n in range(20)))
        bus.close()
        told = [event.seq async for event in heard]
    # Transactions on PostgreSQL may be numbered in another order than they committed in.
    in_order = sorted(told) if database.shared else told
    assert await audit_places(database, *in_order) == list(range(1, 21))
    assert (await log.verify()).entries == 20


async def test_a_chain_is_held_to_a_head_copied_earlier(database: Database) -> None:
    log = AuditLog(database)
    nothing = await log.verify()
    await log.append("x", 1)
    one = await log.verify()
    await log.append("x", 2)
    for earlier in (nothing, one):
        assert (await log.verify(earlier.hash)).entries == 2
    with pytest.raises(AuditBroken, match="no entry with the hash f00d"):
        await log.verify("f00d")
