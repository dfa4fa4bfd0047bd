"""What of the store's promises PostgreSQL keeps in its own way."""

from __future__ import annotations

import asyncio
import gc
import itertools
import select as select_module
import types
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import psycopg
import psycopg.waiting
import pytest
from sqlalchemy import delete, insert, select, text
from sqlalchemy.exc import DatabaseError, IntegrityError
from tests.support.database import AuditLog, recorded_statements

from solward.database import database as module
from solward.database import outbox
from solward.database.database import Database, lock_exclusive
from solward.database.tables import switches
from solward.types.errors import StoreError
from solward.types.events import Event

pytestmark = pytest.mark.more

# Held by another connection, a commit waits for it: the trigger runs at the commit.
SLOW_COMMIT = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON switches DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wait();
"""


OTHERS = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
ENDED = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
def database(postgres_database: Database) -> Database:
    return postgres_database


async def put(database: Database, *scopes: str) -> None:
    async with database.write() as connection:
        for scope in scopes:
            row = {"scope": scope, "frozen": True, "changed_ms": 1}
            await connection.execute(insert(switches).values(row))


async def scopes(database: Database) -> set[str]:
    async with database.read() as connection:
        return set(await connection.scalars(select(switches.c.scope)))


async def waiting_at_commit(database: Database) -> None:
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    async with asyncio.timeout(10):
        while True:
            async with database.read() as connection:
                if (await connection.execute(waiting)).scalar_one():
                    return


async def test_cancelled_during_its_commit_the_caller_hears_of_it_when_that_has_ended(
    database: Database,
) -> None:
    async with database.write() as connection:
        await connection.exec_driver_sql(SLOW_COMMIT)
    async with database.write() as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(7)"))
        writer = asyncio.create_task(put(database, "one"))
        await waiting_at_commit(database)
        for _ in range(3):
            writer.cancel()
            await asyncio.sleep(0)
        assert not writer.done()
    with pytest.raises(asyncio.CancelledError):
        await writer
    assert await scopes(database) == {"one"}


async def test_what_the_commit_itself_refuses_is_not_told(database: Database) -> None:
    told: list[Event] = []
    database.on_committed = told.extend
    async with database.write() as connection:
        await connection.exec_driver_sql(SLOW_COMMIT.replace("PERFORM pg_advisory_xact_lock(7);",
                                         "RAISE EXCEPTION 'refused at the commit';"))  # fmt: skip

    async def refused() -> None:
        async with database.write() as connection:
            outbox.record(connection, "x", None)
            row = {"scope": "one", "frozen": True, "changed_ms": 1}
            await connection.execute(insert(switches).values(row))

    with pytest.raises(DatabaseError, match="refused at the commit"):
        await refused()
    assert told == []
    assert await scopes(database) == set()
    assert await AuditLog(database).latest() == []


async def test_an_error_quotes_nothing_of_the_row(database: Database) -> None:
    with pytest.raises(IntegrityError) as caught:
        await put(database, "canary", "canary")
    assert "uq_" in str(caught.value) or "pk_switches" in str(caught.value)
    assert "canary" not in str(caught.value) + str(caught.value.orig) + repr(caught.value)


async def test_a_reader_writes_nothing(database: Database) -> None:
    async def write() -> None:
        async with database.read() as connection:
            await connection.execute(delete(switches))

    with pytest.raises(StoreError, match="read-only"):
        await write()
    assert await scopes(database) == set()


async def test_many_writers_at_once_all_get_their_turn(database: Database) -> None:
    names = {f"s{number}" for number in range(60)}
    await asyncio.gather(*(put(database, name) for name in names))
    assert await scopes(database) == names


async def test_no_connection_left_in_time_is_a_store_error(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POOL", 1)
    monkeypatch.setattr(module, "_POOL_OVERFLOW", 0)
    monkeypatch.setattr(module, "_POOL_WAIT_S", 0.05)
    database = await Database.open(postgres_url, tmp_path)
    async with database.write():
        with pytest.raises(StoreError, match="limit of size 1"):
            await scopes(database)
    assert await scopes(database) == set()
    await database.close()


async def test_a_server_that_went_away_is_a_store_error_and_then_back_again(
    database: Database,
) -> None:
    async def cut_off() -> None:
        async with database.write() as victim:
            await victim.execute(text("SELECT 1"))
            async with database.write() as connection:
                await connection.execute(ENDED)
            await victim.execute(text("SELECT 1"))

    with pytest.raises(StoreError):
        await cut_off()
    await put(database, "one")
    assert await scopes(database) == {"one"}


async def test_who_stands_still_in_a_transaction_keeps_nobody_waiting(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_IDLE_TIMEOUT_S", 1)
    database = await Database.open(postgres_url, tmp_path)
    await put(database, "one")
    resumed = asyncio.Event()

    async def stand_still() -> None:
        async with database.write() as connection:
            await connection.execute(delete(switches))
            held.set()
            await resumed.wait()

    held = asyncio.Event()
    still = asyncio.create_task(stand_still())
    await held.wait()
    async with asyncio.timeout(30), database.write() as connection:
        await connection.execute(delete(switches).where(switches.c.scope == "one"))
    resumed.set()
    with pytest.raises(StoreError):
        await still
    assert await scopes(database) == set()
    await database.close()


async def test_who_keeps_a_lock_for_others_work_may_stand_still(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_IDLE_TIMEOUT_S", 1)
    database = await Database.open(postgres_url, tmp_path)
    async with database.write() as connection:
        await lock_exclusive(connection, "work", may_idle=True)
        shown = await connection.execute(text("SHOW idle_in_transaction_session_timeout"))
        assert shown.scalar_one() == "0"
    async with database.write() as connection:
        shown = await connection.execute(text("SHOW idle_in_transaction_session_timeout"))
        assert shown.scalar_one() == "1s"
    await database.close()


async def test_a_server_that_is_away_is_said_to_be_without_its_address(tmp_path: Path) -> None:
    url = "postgresql+psycopg://user:secret-word@127.0.0.1:9/solward"
    with pytest.raises(StoreError) as refused:
        await Database.open(url, tmp_path)
    assert str(refused.value) == "The database cannot be reached"


async def test_connections_that_the_server_ended_while_nobody_used_them_fail_no_transaction(
    database: Database, postgres_url: str
) -> None:
    address = postgres_url.replace("+psycopg", "", 1)
    # As many as the pool keeps.
    names = {f"s{number}" for number in range(10)}

    async def held(name: str, all_open: asyncio.Barrier) -> None:
        async with database.write():
            await all_open.wait()

    for _ in range(3):
        # As many connections as there are transactions at once.
        together = asyncio.Barrier(len(names))
        await asyncio.gather(*(held(name, together) for name in names))
        with psycopg.connect(address, autocommit=True) as other:
            others = len(other.execute(str(ENDED)).fetchall())
            assert others >= len(names)
            while others:
                [(others,)] = other.execute(OTHERS).fetchall()
        await asyncio.gather(*(put(database, name) for name in names))
        assert await scopes(database) == names
        async with database.write() as connection:
            await connection.execute(delete(switches))


async def test_a_connection_that_is_well_is_asked_nothing_first(
    postgres_url: str, tmp_path: Path
) -> None:
    with recorded_statements() as statements:
        database = await Database.open(postgres_url, tmp_path)
        await scopes(database)
        statements.clear()
        for _ in range(3):
            await scopes(database)
            await put(database)
        assert [each.split()[0] for each in statements.seen] == ["SELECT"]
        await database.close()


async def test_a_connection_that_the_server_told_something_is_used_again(
    database: Database, postgres_url: str
) -> None:
    pid = text("SELECT pg_backend_pid()")
    async with database.write() as connection:
        await connection.execute(text("LISTEN news"))
        before = (await connection.execute(pid)).scalar_one()
        driver: Any = connection.sync_connection.connection.driver_connection
    with psycopg.connect(postgres_url.replace("+psycopg", "", 1)) as other:
        other.execute("NOTIFY news")
    async with asyncio.timeout(10):
        while not select_module.select([driver.fileno()], [], [], 0)[0]:
            await asyncio.sleep(0.001)
    async with database.write() as connection:
        assert (await connection.execute(pid)).scalar_one() == before


@types.coroutine
def cancelled_at(
    number: int, work: Coroutine[Any, Any, None], *, ended: bool
) -> Generator[Any, Any, None]:
    """Run `work`, and cancel the task that does in the wait of this number: as that begins, or as
    what it waits for has ended."""
    task = asyncio.current_task()
    assert task is not None
    answer: BaseException | None = None
    for count in itertools.count(1):
        try:
            waited = work.send(None) if answer is None else work.throw(answer)
        except StopIteration:
            return
        if count == number and ended and waited is not None:
            waited.add_done_callback(lambda _: task.cancel())
        elif count == number:
            task.cancel()
        answer = None
        try:
            yield waited
        except BaseException as error:
            answer = error


@pytest.mark.parametrize("ended", [False, True], ids=["begun", "ended"])
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_cancelled_in_whichever_wait_a_transaction_gives_its_connection_back(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ended: bool
) -> None:
    monkeypatch.setattr(module, "_POOL", 1)
    monkeypatch.setattr(module, "_POOL_OVERFLOW", 0)
    monkeypatch.setattr(module, "_POOL_WAIT_S", 0.05)
    # The driver waits one turn of the loop wherever it waits at all, as in a busy process.
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", 0)
    database = await Database.open(postgres_url, tmp_path)
    terms = text(
        "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"
    )

    async def work() -> None:
        async with getattr(database, kind)() as connection:
            await connection.execute(terms)

    async def cancelled(number: int) -> None:
        await cancelled_at(number, work(), ended=ended)

    # The garbage collector would mend it, at some time.
    gc.disable()
    try:
        for number in itertools.count(1):
            task = asyncio.create_task(cancelled(number))
            await asyncio.wait((task,))
            # The one connection of the pool is there, and as a writer's must be.
            async with database.write() as connection:
                assert (await connection.execute(terms)).one() == ("read committed", "off")
            async with database.read() as connection:
                assert (await connection.execute(terms)).one() == ("repeatable read", "on")
            if not task.cancelled():
                break
    finally:
        gc.enable()
    assert number > 3
    await database.close()
