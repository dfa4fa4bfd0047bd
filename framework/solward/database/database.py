"""The database of a process: transactions, locks and clock, on SQLite or PostgreSQL.

Everything else here and in `solward.vault.store` is SQL inside a transaction that its caller
opened here.
"""

from __future__ import annotations

import asyncio
import contextlib
import select as select_module
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr
from sqlalchemy import (
    ColumnElement,
    Engine,
    bindparam,
    create_engine,
    event,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, Dialect, ExceptionContext, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    InternalError,
    InvalidatePoolError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as Exhausted
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from solward.database import outbox, sqlite
from solward.database.outbox import Recorded
from solward.database.prepared import Prepared, hide_values
from solward.database.schema import has_schema, make_schema
from solward.database.sqlite import FileLock, SQLiteReaders, SQLiteWriter
from solward.database.tables import ledger_time
from solward.database.window_clock import Moment, WindowClock
from solward.support.clock import now_ms
from solward.telemetry import metrics
from solward.types.errors import ConfigError, StoreError
from solward.types.events import Event

_READERS = 8
# Connections of one process to PostgreSQL, which has a few hundred for all processes.
_POOL = 10
_POOL_OVERFLOW = 10
# The wait for a connection when all are in use.
_POOL_WAIT_S = 30.0
# The server ends a transaction that is idle for longer. A transaction only waits for its own next
# statement, so an idle one belongs to a stopped process.
_IDLE_TIMEOUT_S = 10

# PostgreSQL's advisory locks have two numbers: a namespace, and the name's hash. If two names have
# the same hash, one waits for the other without need, which does no harm.
_NAMESPACE = 0x534F4C57  # "SOLW"
_LOCK = Prepared(text(f"SELECT pg_advisory_xact_lock({_NAMESPACE}, hashtext(:name))"))
_TRY_LOCK = text(f"SELECT pg_try_advisory_xact_lock({_NAMESPACE}, hashtext(:name))")
_LOCK_SHARED = Prepared(text(f"SELECT pg_advisory_xact_lock_shared({_NAMESPACE}, hashtext(:name))"))
_NO_IDLE_TIMEOUT = text("SET LOCAL idle_in_transaction_session_timeout = 0")

# Options of a read transaction: all its reads see one snapshot, as on SQLite.
_READING: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

# The database's clock, in milliseconds, because the machines' clocks may differ.
_CLOCK: ColumnElement[int] = literal_column(
    "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
).label("ms")
_LEDGER_TIME = select(ledger_time.c.ms)
_NOW = Prepared(select(_CLOCK))
_NOW_AND_LEDGER_TIME = Prepared(select(_CLOCK, _LEDGER_TIME.scalar_subquery().label("ledger_ms")))
# If several processes store the time at once, only one does, so that none waits for another.
_KEEP_LEDGER_TIME = Prepared(
    update(ledger_time)
    .where(
        ledger_time.c.id.in_(
            select(ledger_time.c.id)
            .where(ledger_time.c.ms < bindparam("b_ms"))
            .with_for_update(skip_locked=True)
        )
    )
    .values(ms=bindparam("b_ms"))
)

Kind = Literal["read", "write"]


class Database:
    """Open one with `Database.open`, close it with `close`.

    Attributes:
        on_transaction: called with "read" or "write" as each transaction begins, for counting.
        commits: the number of commits so far; on SQLite one may end several write transactions.
        audit_key: the key that authenticates the audit log, set once the keystore is open.
        on_committed: called with the events of a commit after it.
        before_commit: called at the end of each write transaction; may write in the transaction.
        shared: whether other processes may use it at the same time, as on PostgreSQL.
        windows: the clock at which limits' windows end; it gets the ledger's time from nodes.
    """

    def __init__(
        self, url: URL, file_lock: FileLock | None = None, *, inspects: bool = False
    ) -> None:
        self._file_lock = file_lock
        self.windows = WindowClock()
        self.shared = url.get_backend_name() != "sqlite"
        if self.shared:
            self._server = _server_engine(url)
            if inspects:
                self._server = self._server.execution_options(**_READING)
        else:
            readers = _sqlite_engine(url, writer=False)
            if inspects:
                event.listen(readers, "connect", _set_query_only)
            writer = readers if inspects else _sqlite_engine(url, writer=True)
            self._sqlite_readers = SQLiteReaders(readers, _READERS)
            self._sqlite_writer = SQLiteWriter(writer, self._end_block, self._end_events)
        self.commits = 0
        self.audit_key: bytes | None = None
        self.on_transaction: Callable[[Kind], object] | None = None
        self.on_committed: Callable[[Sequence[Event]], object] | None = None
        self.before_commit: Callable[[AsyncConnection], Awaitable[None]] | None = None

    @classmethod
    async def open(cls, url: str | SecretStr | None, home: Path) -> Database:
        """Open `url`, or `solward.db` in `home`, and create the tables if the database is empty.

        No other process can open a SQLite file until `close`.

        Raises:
            ConfigError: the URL names no database that is supported.
            HomeLocked: another process has the SQLite file open, under any home.
            OtherSchema: its tables are not those of this version; nothing was changed.
            StoreError: it cannot be opened.
        """
        parsed, file, lock = _parse_url(url, home), database_file(url, home), None
        if file is not None:
            # Write-ahead files get the mode of the database, and all of them hold sealed keys.
            # SQLite reports what is wrong with the path.
            with contextlib.suppress(OSError):
                lock = FileLock(file)
        database = cls(parsed, lock)
        try:
            # The writer's connection would change the file of another program.
            async with database.read() as connection:
                await has_schema(connection)
            async with database.write() as connection:
                # If several processes start together, one makes the tables.
                await lock_exclusive(connection, "schema")
                await make_schema(connection)
                if not database.shared:
                    # Nobody else writes it.
                    stored = (await connection.execute(_LEDGER_TIME)).scalar_one()
                    database.windows.moment(now_ms(), stored)
        except BaseException:
            await database.close()
            raise
        return database

    @classmethod
    def inspect(cls, url: str | SecretStr | None, home: Path) -> Database:
        """Open an existing database for reading only, even while other processes have it open.

        Raises:
            ConfigError: the URL names no database that is supported.
            StoreError: there is none.
        """
        parsed, file = _parse_url(url, home), database_file(url, home)
        if file is not None and not file.is_file():
            raise StoreError(f"There is no database at {file}")
        return cls(parsed, inspects=True)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Yield a transaction that sees one state of the database and changes nothing.

        Raises:
            StoreError: the database refused.
        """
        if self.on_transaction is not None:
            self.on_transaction("read")
        with metrics.DATABASE_READ.time():
            try:
                if not self.shared:
                    async with self._sqlite_readers.read() as connection:
                        yield connection
                    return
                connection = await self._server.connect()
                try:
                    await _begin_reading(connection)
                    yield connection
                finally:
                    await _run_to_end(connection.close())
            except (DatabaseError, Exhausted, sqlite3.Error) as error:
                raise _translate_error(error) from error

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Yield one transaction: committed durably when the block ends, rolled back if it raises.

        On SQLite writers queue here, in order, and those that wait share a commit. A cancellation
        during the commit is raised after it, so that no caller sees it half done. Events recorded
        in the block (`solward.database.outbox`) are part of the transaction.

        Raises:
            StoreError: the database refused; nothing was written.
            sqlalchemy.exc.IntegrityError: a constraint refused; nothing was written.
        """
        if self.on_transaction is not None:
            self.on_transaction("write")
        transaction = self._transaction() if self.shared else self._sqlite_writer.write()
        with metrics.DATABASE_WRITE.time():
            try:
                async with transaction as connection:
                    yield connection
            except (DatabaseError, Exhausted, sqlite3.Error) as error:
                raise _translate_error(error) from error

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        connection = await self._server.connect()
        try:
            outbox.begin(connection)
            await connection.begin()
            yield connection
            await self._end_block(connection)
            publish = await self._end_events(connection, outbox.take(connection))
            # Committed events are published even if the caller was cancelled: they are durable by
            # then.
            await _run_to_end(_commit_transaction(connection, publish))
        except BaseException:
            outbox.take(connection)
            await _run_to_end(connection.rollback())
            raise
        finally:
            await _run_to_end(connection.close())

    async def moment(self, connection: AsyncConnection) -> Moment:
        """Return the present time by the database's clock and by the clock of limits' windows."""
        if not self.shared:
            return self.windows.moment(now_ms())
        (row,) = await _NOW_AND_LEDGER_TIME.all(connection)
        return self.windows.moment(int(row.ms), int(row.ledger_ms))

    async def store_ledger_time(self, connection: AsyncConnection) -> None:
        """Store the ledger's time if it has advanced, as part of the caller's transaction."""
        ledger_ms = self.windows.time_to_store()
        if ledger_ms is not None:
            await _KEEP_LEDGER_TIME.run(connection, {"b_ms": ledger_ms})

    @property
    def conninfo(self) -> str:
        """The address of a PostgreSQL database for libpq; it may hold the password."""
        url = self._server.url.set(drivername="postgresql")
        return url.render_as_string(hide_password=False)

    async def close(self) -> None:
        """Close every connection; transactions still open are rolled back."""
        if self.shared:
            await self._server.dispose()
        else:
            await self._sqlite_readers.close()
            await self._sqlite_writer.close()
        if self._file_lock is not None:
            self._file_lock.release()

    async def _end_block(self, connection: AsyncConnection) -> None:
        if self.before_commit is not None:
            await self.before_commit(connection)

    async def _end_events(
        self, connection: AsyncConnection, recorded: Sequence[Recorded]
    ) -> Callable[[], None]:
        """Append events to the audit log; return a function to publish them after the commit."""
        events = await outbox.append(connection, recorded, self.audit_key)
        return partial(self._publish_events, events, recorded)

    def _publish_events(self, events: Sequence[Event], recorded: Sequence[Recorded]) -> None:
        self.commits += 1
        if events:
            outbox.publish(events, recorded)
            if self.on_committed is not None:
                self.on_committed(events)


async def _commit_transaction(connection: AsyncConnection, publish: Callable[[], None]) -> None:
    await connection.commit()
    publish()


def _translate_error(error: DatabaseError | Exhausted | sqlite3.Error) -> Exception:
    """Return a `StoreError` if the database itself failed, else the unchanged error."""
    if isinstance(error, Exhausted):
        return StoreError(f"The database refused: {error.args[0]}")
    if isinstance(error, sqlite3.Error):
        return StoreError(f"The database refused: {error}")
    # PostgreSQL's internal errors include a server that is read-only.
    if type(error) not in (DatabaseError, InternalError, OperationalError):
        return error
    if getattr(error.orig, "sqlstate", "") is None:
        # The driver's own error names the server's address, so its text is left out.
        return StoreError("The database cannot be reached")
    return StoreError(f"The database refused: {error.orig}")


async def _begin_reading(connection: AsyncConnection) -> None:
    """Make a PostgreSQL connection read-only, on one snapshot, until it returns to the pool.

    The caller already owns the connection. If the engine set these options, a cancellation
    meanwhile would leave the connection neither with the caller nor in the pool.
    """
    try:
        await connection.execution_options(**_READING)
    except BaseException:
        # It may have one of them already, which the pool would not take back.
        await _run_to_end(connection.invalidate())
        raise


async def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Await `work` to its end even if the caller is cancelled, then raise the cancellation."""
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


async def lock_exclusive(connection: AsyncConnection, name: str, *, may_idle: bool = False) -> None:
    """Lock a name exclusively until the transaction ends; SQLite's one writer has every lock.

    Args:
        may_idle: whether the transaction idles while others work; it then has no timeout.
    """
    if connection.dialect.name != "sqlite":
        await _LOCK.all(connection, {"name": name})
        if may_idle:
            await connection.execute(_NO_IDLE_TIMEOUT)


async def try_lock_exclusive(connection: AsyncConnection, name: str) -> bool:
    """Lock a name as `lock_exclusive` does, or return False at once if the name is locked."""
    if connection.dialect.name == "sqlite":
        return True
    return bool((await connection.execute(_TRY_LOCK, {"name": name})).scalar_one())


async def lock_shared(connection: AsyncConnection, name: str) -> None:
    """Lock a name until the transaction ends; other transactions may share the lock."""
    if connection.dialect.name != "sqlite":
        await _LOCK_SHARED.all(connection, {"name": name})


async def clock(connection: AsyncConnection) -> int:
    """Return the database's time in Unix milliseconds, which all its processes share."""
    if connection.dialect.name == "sqlite":
        return now_ms()
    return int(await _NOW.scalar(connection))


def database_file(url: str | SecretStr | None, home: Path) -> Path | None:
    """Return the SQLite file that `Database.open` would open; None for a database server.

    Raises:
        ConfigError: the URL names no database that is supported.
    """
    parsed = _parse_url(url, home)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def _parse_url(url: str | SecretStr | None, home: Path) -> URL:
    if url is None:
        return URL.create("sqlite", database=str(home / "solward.db"))
    address = url.get_secret_value() if isinstance(url, SecretStr) else url
    try:
        parsed = make_url(address)
    except (ArgumentError, ValueError):
        # The address may hold a password.
        raise ConfigError("DATABASE_URL: expected an address such as sqlite:///file.db") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise ConfigError("DATABASE_URL: expected a SQLite file, not a database in memory")
        if "uri" in parsed.query or str(parsed.database).startswith("file:"):
            # A URI can switch SQLite's locks off, and its path is not the file's.
            raise ConfigError("DATABASE_URL: expected the path of a SQLite file, not a URI")
        return parsed.set(drivername="sqlite")
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigError(f"DATABASE_URL: expected sqlite or postgresql, not {backend}")


def _server_engine(url: URL) -> AsyncEngine:
    try:
        engine = create_async_engine(
            url,
            pool_size=_POOL,
            max_overflow=_POOL_OVERFLOW,
            pool_timeout=_POOL_WAIT_S,
            hide_parameters=True,
        )
    except ModuleNotFoundError:
        raise ConfigError(
            "DATABASE_URL: PostgreSQL needs the extra: pip install 'solward[postgres]'"
        ) from None
    event.listen(engine.sync_engine, "handle_error", _hide_values)
    event.listen(engine.sync_engine, "connect", _set_idle_timeout)
    event.listen(engine.sync_engine, "checkout", partial(_replace_ended, engine.dialect))
    return engine


def _sqlite_engine(url: URL, *, writer: bool) -> Engine:
    engine = create_engine(
        url,
        # Connections stay open (`sqlite`).
        poolclass=NullPool,
        # Statements run in the caller's thread, commits in the committing thread.
        connect_args={"check_same_thread": False, "factory": sqlite.DriverConnection},
        hide_parameters=True,
    )
    event.listen(engine, "connect", partial(sqlite.on_connect, writer=writer))
    return engine


def _hide_values(context: ExceptionContext) -> None:
    if context.sqlalchemy_exception is not None:
        hide_values(context.original_exception, context.sqlalchemy_exception)


def _set_idle_timeout(connection: Any, _record: object) -> None:
    """Make the server end idle transactions, which would keep rows locked if a process stops."""
    cursor = connection.cursor()
    cursor.execute(f"SET idle_in_transaction_session_timeout = '{_IDLE_TIMEOUT_S}s'")
    cursor.close()
    connection.commit()


def _replace_ended(dialect: Dialect, connection: Any, _record: object, _proxy: object) -> None:
    """Make the pool replace a connection that the server ended while it was idle.

    `pool_pre_ping` would ask the server before every transaction. Instead, this looks for unread
    data: an idle connection has some if the server ended it, and seldom otherwise.
    """
    driver = connection.driver_connection
    if not driver.closed:
        # `select` takes no file above 1,024.
        readable = select_module.poll()
        readable.register(driver.fileno(), select_module.POLLIN)
        if not readable.poll(0):
            return
        with contextlib.suppress(dialect.loaded_dbapi.Error):
            dialect.do_ping(connection)
            return
    raise InvalidatePoolError


def _set_query_only(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA query_only = ON")
