"""The database of a process: read and write transactions, on SQLite or PostgreSQL.

Everything else in `solward.store` is SQL inside a transaction that its caller opened here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr
from sqlalchemy import event
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as Exhausted
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from solward.audit import outbox
from solward.errors import ConfigError, StoreError
from solward.events import Event
from solward.telemetry import metrics
from solward.vault.store import commit_log, locks, sqlite
from solward.vault.store.schema import upgrade

_READERS = 8
# Connections of one process to PostgreSQL; it has a few hundred for all of them.
_POOL = 10
_POOL_OVERFLOW = 10
# A transaction in which a process does nothing for so long is ended by the server. None waits for
# anything but its own next statement, so it is one of a process that was stopped.
_STANDSTILL_S = 10
# For one of them, where all are at work.
_POOL_WAIT_S = 30.0

Kind = Literal["read", "write"]


class Database:
    """Open one with `Database.open`, close it with `close`.

    Attributes:
        on_transaction: called with "read" or "write" as each transaction begins, for counting.
        on_recorded: told the events a write transaction recorded, once it committed.
    """

    def __init__(self, readers: AsyncEngine, writer: AsyncEngine) -> None:
        self._readers = readers
        self._writer = writer
        self._lock = asyncio.Lock() if writer.dialect.name == "sqlite" else None
        self.on_transaction: Callable[[Kind], object] | None = None
        self.on_recorded: Callable[[Sequence[Event]], object] | None = None

    @classmethod
    async def open(cls, url: str | SecretStr | None, home: Path) -> Database:
        """Open `url`, or `solward.db` in `home`, and bring it to this version's schema.

        Raises:
            ConfigError: the URL names no database that is supported.
            StoreError: it cannot be opened, or belongs to a newer version.
        """
        database = cls(*_engines(_parse(url, home)))
        try:
            async with database.write() as connection:
                # Processes that start together bring it there one after the other.
                await locks.exclusive(connection, "schema")
                await upgrade(connection)
        except BaseException:
            await database.close()
            raise
        return database

    @classmethod
    def inspect(cls, url: str | SecretStr | None, home: Path) -> Database:
        """Open what is there for reading alone, whoever else has it open; nothing is made or
        upgraded.

        Raises:
            ConfigError: the URL names no database that is supported.
            StoreError: there is none.
        """
        parsed, file = _parse(url, home), database_file(url, home)
        if file is not None:
            if not file.is_file():
                raise StoreError(f"There is no database at {file}")
            readers = _sqlite_engine(parsed, 1, writer=False)
            event.listen(readers.sync_engine, "connect", _only_read)
        else:
            readers, _writer = _engines(parsed)
        return cls(readers, readers)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees one state of the database throughout, and changes nothing.

        Raises:
            StoreError: the database refused.
        """
        if self.on_transaction is not None:
            self.on_transaction("read")
        with metrics.timed(metrics.DATABASE_READ):
            try:
                connection = await self._readers.connect()
                try:
                    yield connection
                finally:
                    await self._end(connection.close())
            except (DatabaseError, Exhausted) as error:
                raise _translated(error) from error

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """One transaction: committed, durably, when the block ends, rolled back when it raises.

        On SQLite writers queue here, in order. A caller cancelled during the commit is told so
        only when the commit has ended, so that no half-finished state is ever given on. Events
        recorded in the block (`solward.audit.outbox`) are part of the transaction.

        Raises:
            StoreError: the database refused; nothing was written.
            sqlalchemy.exc.IntegrityError: a constraint refused; nothing was written.
        """
        with metrics.timed(metrics.DATABASE_WRITE):
            if self._lock is None:
                async with self._transaction() as connection:
                    yield connection
                return
            async with self._lock, self._transaction() as connection:
                yield connection

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        if self.on_transaction is not None:
            self.on_transaction("write")
        try:
            connection = await self._writer.connect()
            try:
                outbox.gather(connection)
                await connection.begin()
                yield connection
                await self._commit(connection)
            except BaseException:
                await self._end(connection.rollback())
                raise
            finally:
                await self._end(connection.close())
        except (DatabaseError, Exhausted) as error:
            raise _translated(error) from error

    @property
    def shared(self) -> bool:
        """Whether other processes may work on it at the same time: PostgreSQL."""
        return self._lock is None

    @property
    def conninfo(self) -> str:
        """The address of a PostgreSQL database as libpq takes it; it may hold the password."""
        url = self._writer.url.set(drivername="postgresql")
        return url.render_as_string(hide_password=False)

    def connection_arguments(self) -> dict[str, Any]:
        """What `psycopg.AsyncConnection.connect` takes, a password included, for a connection
        beside the pool's; PostgreSQL only."""
        _positional, arguments = self._writer.dialect.create_connect_args(self._writer.url)
        return dict(arguments)

    async def close(self) -> None:
        """Close every connection; transactions still open are rolled back."""
        await self._readers.dispose()
        if self._writer is not self._readers:
            await self._writer.dispose()
        committer = getattr(self._writer.dialect, "committer", None)
        if committer is not None:
            committer.shutdown()

    async def _commit(self, connection: AsyncConnection) -> None:
        events = await outbox.append(connection)
        # Told even where the caller is cancelled meanwhile: it did happen.
        await self._end(self._commit_and_tell(connection, events))
        dialect = self._writer.dialect
        if isinstance(dialect, sqlite.InlineSQLite) and dialect.cancelled:
            dialect.cancelled = False
            raise asyncio.CancelledError

    async def _commit_and_tell(self, connection: AsyncConnection, events: Sequence[Event]) -> None:
        await connection.commit()
        if events:
            commit_log.committed(events)
            if self.on_recorded is not None:
                self.on_recorded(events)

    async def _end(self, work: Coroutine[Any, Any, None]) -> None:
        # SQLite's commit waits out a cancellation itself, and nothing else of it ever waits.
        await (_finish(work) if self._lock is None else work)


def _translated(error: DatabaseError | Exhausted) -> Exception:
    """`StoreError` for what the database could not do, the error itself for what was asked wrong
    of it, such as `IntegrityError`."""
    if isinstance(error, Exhausted):
        return StoreError(f"The database refused: {error.args[0]}")
    # Internal is what PostgreSQL calls, among others, a server that may only be read.
    if type(error) not in (DatabaseError, InternalError, OperationalError):
        return error
    if getattr(error.orig, "sqlstate", "") is None:
        # Not the server's word but the driver's, who names the server's address.
        return StoreError("The database cannot be reached")
    return StoreError(f"The database refused: {error.orig}")


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end whatever happens to the caller, then say what happened to the caller."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()
        raise


def database_file(url: str | SecretStr | None, home: Path) -> Path | None:
    """The SQLite file `Database.open` would open, None where a server holds the data.

    Raises:
        ConfigError: the URL names no database that is supported.
    """
    parsed = _parse(url, home)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def _parse(url: str | SecretStr | None, home: Path) -> URL:
    if url is None:
        return URL.create(sqlite.DRIVER, database=str(home / "solward.db"))
    text = url.get_secret_value() if isinstance(url, SecretStr) else url
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password.
        raise ConfigError("DATABASE_URL: expected an address such as sqlite:///file.db") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise ConfigError("DATABASE_URL: expected a SQLite file, not a database in memory")
        return parsed.set(drivername=sqlite.DRIVER)
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigError(f"DATABASE_URL: expected sqlite or postgresql, not {backend}")


def _engines(url: URL) -> tuple[AsyncEngine, AsyncEngine]:
    """Reader and writer."""
    if url.get_backend_name() != "sqlite":
        try:
            engine = create_async_engine(
                url,
                pool_pre_ping=True,
                pool_size=_POOL,
                max_overflow=_POOL_OVERFLOW,
                pool_timeout=_POOL_WAIT_S,
                hide_parameters=True,
            )
        except ModuleNotFoundError:
            raise ConfigError(
                "DATABASE_URL: PostgreSQL needs the extra: pip install 'solward[postgres]'"
            ) from None
        event.listen(engine.sync_engine, "handle_error", _without_values)
        event.listen(engine.sync_engine, "connect", _let_nobody_wait)
        # Of the same pool; a read sees one state throughout, as it does on SQLite.
        readers = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        return readers, engine
    # The write-ahead files get the mode of the database, and all of them hold sealed keys. What is
    # wrong with the path is for SQLite to say.
    with contextlib.suppress(OSError):
        os.close(os.open(str(url.database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    readers = _sqlite_engine(url, _READERS, writer=False)
    writer = _sqlite_engine(url, 1, writer=True)
    return readers, writer


def _sqlite_engine(url: URL, size: int, *, writer: bool) -> AsyncEngine:
    engine = create_async_engine(
        url,
        pool_size=size,
        max_overflow=0,
        # Statements run where their caller is, commits in the one committing thread.
        connect_args={"check_same_thread": False, "factory": sqlite.InlineConnection},
        hide_parameters=True,
    )
    dialect = engine.dialect
    assert isinstance(dialect, sqlite.InlineSQLite)
    dialect.immediate = writer
    if writer:
        dialect.committer = ThreadPoolExecutor(1, "solward-commit")
    event.listen(engine.sync_engine, "connect", partial(_connected, writer=writer))
    return engine


def _without_values(context: ExceptionContext) -> None:
    """Leave out of an error what PostgreSQL quotes of the row, as SQLite never does."""
    cause, shown = context.original_exception, context.sqlalchemy_exception
    said = getattr(getattr(cause, "diag", None), "message_primary", None)
    if said is not None and shown is not None:
        cause.args = (said,)
        shown.args = (f"({type(cause).__module__}.{type(cause).__name__}) {said}",)


def _let_nobody_wait(connection: Any, _record: object) -> None:
    """Others wait for the rows of a transaction whose process stands still, and only so long."""
    cursor = connection.cursor()
    cursor.execute(f"SET idle_in_transaction_session_timeout = '{_STANDSTILL_S}s'")
    cursor.close()
    connection.commit()


def _only_read(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA query_only = ON")


def _connected(connection: Any, _record: object, *, writer: bool) -> None:
    sqlite.on_connect(connection, writer=writer)
