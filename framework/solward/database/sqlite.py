"""SQLite for asyncio: concurrent readers, one writer, and one commit for all waiting writers.

A statement on a local WAL database takes tens of microseconds, less than a hop to a thread and
back; only the commit waits for the disk, so only it leaves the event loop. Statements must stay
short: keyed reads and bounded pages, as all in `solward.vault.store` are.

A commit waits for the disk, and SQLite has one writer, so of concurrent writers each would wait for
the commits of all before it. Instead, the waiting writers' blocks run one after the other in one
database transaction, each under its own savepoint, and return after the one commit that makes all
of them durable. A block that raises undoes only its own changes. If the commit fails, all changes
are undone.

The connections stay open, because SQLAlchemy's work around a transaction takes longer than a short
transaction on SQLite. SQLAlchemy's own transaction never ends; only the database's begin and end.

The database's file is locked: one process at a time, whatever path or home names it. The lock is on
the file itself, so symbolic and hard links to it meet the same lock. SQLite's own locks
(sqlite.org, "File Locking And Concurrency") are for single transactions: they let two services in.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sqlite3
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from sqlalchemy import CursorResult, Engine, Executable, ScalarResult
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as Exhausted
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database import outbox
from solward.database.outbox import Recorded
from solward.support.tasks import run_to_end
from solward.types.errors import HomeLocked, StoreError

# Maximum wait of a reader or a writer for another process.
BUSY_TIMEOUT_S = 5.0
_BUSY_POLL_S = 0.005
# Maximum number of blocks in one commit, because the first of them waits for the last.
_MOST_BLOCKS = 64
# Turns of the event loop that a commit waits for writers to join it, if the last one was shared.
_TURNS = 4
# Maximum wait for a reader's connection when all are in use.
_READER_WAIT_S = 30.0

T = TypeVar("T")

EndBlock: TypeAlias = Callable[[AsyncConnection], Awaitable[None]]
"""A function to call at the end of each write block."""
EndGroup: TypeAlias = Callable[
    [AsyncConnection, Sequence[Recorded]], Awaitable[Callable[[], object]]
]
"""A function to call with the recorded events before a commit; it returns one to call after."""

# `struct flock` of fcntl(2): type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi4x")
# Linux's locks of an open file: no other descriptor's close releases them, unlike the locks SQLite
# takes, and two of one process exclude each other. Of one byte beyond any database's end, because
# locks of a range that SQLite uses would stop it.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)
_AT, _BYTES = 2**62, 1
# SQLite's shared range, which a connection in WAL mode holds while it is open.
_SHARED_AT, _SHARED_BYTES = 0x40000002, 510

# Files that this process has locked, by device and inode. Closing any descriptor of a file releases
# SQLite's locks on it in the whole process, so a second lock must be refused before it opens one.
_held: set[tuple[int, int]] = set()


class DriverConnection(sqlite3.Connection):
    """A connection of the standard library's driver; tests can replace this class's methods."""


class SQLiteConnection:
    """An open connection with the used methods of `AsyncConnection`; they run synchronously.

    Attributes:
        driver: the driver's own connection.
    """

    def __init__(self, engine: Engine) -> None:
        self.sync_connection = engine.connect()
        self.sync_connection.begin()
        self.dialect = engine.dialect
        driver = self.sync_connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        self.driver = driver

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        """See `AsyncConnection`, which has the other methods too."""
        return self.sync_connection.execute(statement, parameters)

    async def scalar(self, statement: Executable, parameters: Any = None) -> Any:
        return self.sync_connection.scalar(statement, parameters)

    async def scalars(self, statement: Executable, parameters: Any = None) -> ScalarResult[Any]:
        return self.sync_connection.scalars(statement, parameters)

    async def exec_driver_sql(self, statement: str, parameters: Any = None) -> CursorResult[Any]:
        return self.sync_connection.exec_driver_sql(statement, parameters)

    async def run_sync(self, work: Callable[..., T], *arguments: Any) -> T:
        return work(self.sync_connection, *arguments)

    async def invalidate(self, error: BaseException | None = None) -> None:
        self.sync_connection.invalidate(error)


class SQLiteReaders:
    """Opens read transactions. Each sees one snapshot of the database and waits for no writer."""

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._most = most
        self._free: list[SQLiteConnection] = []
        self._places = asyncio.Semaphore(most)
        self._closed = False

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Yield a transaction.

        Raises:
            sqlalchemy.exc.TimeoutError: all connections were in use for too long.
        """
        if self._places.locked():
            await self._wait_connection()
        else:
            await self._places.acquire()
        try:
            opened = self._free.pop() if self._free else SQLiteConnection(self._engine)
            try:
                opened.driver.execute("BEGIN")
                yield cast("AsyncConnection", opened)
            finally:
                self._return_connection(opened)
        finally:
            self._places.release()

    async def close(self) -> None:
        """Close the connections; those in use are closed when their transactions end."""
        self._closed = True
        while self._free:
            self._free.pop().sync_connection.close()
        self._engine.dispose()

    async def _wait_connection(self) -> None:
        try:
            async with asyncio.timeout(_READER_WAIT_S):
                await self._places.acquire()
        except TimeoutError:
            used = f"{self._most} connections are in use"
            raise Exhausted(f"{used}, and none became free in {_READER_WAIT_S:g} s") from None

    def _return_connection(self, opened: SQLiteConnection) -> None:
        connection = opened.sync_connection
        try:
            opened.driver.rollback()
        except sqlite3.Error:
            # The connection is broken, so it must not be used again.
            connection.invalidate()
        if self._closed or connection.invalidated:
            connection.close()
        else:
            self._free.append(opened)


@dataclass(slots=True, eq=False)
class _Group:
    """Several writers' blocks that share one database transaction.

    Attributes:
        recorded: events of the blocks, in their order.
        blocks: the number of blocks that succeeded.
        lost: the error for which SQLite rolled the whole transaction back, or None.
    """

    recorded: list[Recorded] = field(default_factory=list)
    blocks: int = 0
    lost: BaseException | None = None
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)
    _is_ended: bool = False
    _error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        """Wake the writers, in the order of their blocks, after the commit or its failure."""
        self._is_ended, self._error = True, error
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    async def wait_for_end(self) -> None:
        """Wait for the group's end even if the caller is cancelled; then raise the cancellation.

        Raises:
            BaseException: the error for which the group failed.
        """
        was_cancelled = False
        while not self._is_ended:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                was_cancelled = True
        if was_cancelled:
            raise asyncio.CancelledError
        if self._error is not None:
            raise self._error


class SQLiteWriter:
    """Opens write transactions."""

    def __init__(self, engine: Engine, end_block: EndBlock, end_group: EndGroup) -> None:
        self._engine = engine
        self._end_block = end_block
        self._end_group = end_group
        self._committer = ThreadPoolExecutor(1, "solward-commit")
        self._opened: SQLiteConnection | None = None
        self._is_taken = False
        # Whether the last commit had several blocks.
        self._is_busy = False
        # Each future gets the group to join, or None to begin one.
        self._waiting: deque[asyncio.Future[_Group | None]] = deque()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Yield a connection; when this returns, the block's changes are durable or undone.

        Writers return in the order of their blocks, and before a block of the next commit runs, so
        that their later changes in memory have the same order. A cancellation during the commit is
        raised after it.

        Raises:
            sqlite3.Error: the database refused; none of the block's changes were made.
        """
        group = await self._wait_turn()
        try:
            if group is None:
                group = await self._begin()
        except BaseException:
            self._hand_over_turn(None)
            raise
        assert self._opened is not None
        connection, driver = cast("AsyncConnection", self._opened), self._opened.driver
        # The block may have read writes of earlier blocks, and their commit may still fail.
        is_on_others = group.blocks > 0
        try:
            if is_on_others:
                driver.execute("SAVEPOINT block")
            outbox.begin(connection)
            yield connection
            await self._end_block(connection)
            if is_on_others:
                driver.execute("RELEASE block")
            elif not driver.in_transaction:
                raise sqlite3.OperationalError("the transaction was rolled back")
        except BaseException as error:
            outbox.take(connection)
            self._undo_block(group, error)
            await self._end_turn(group)
            if is_on_others and isinstance(error, Exception):
                # The error may reveal other blocks' changes, so it waits until these are durable.
                await group.wait_for_end()
            raise
        group.recorded += outbox.take(connection)
        group.blocks += 1
        await self._end_turn(group)
        await group.wait_for_end()

    async def close(self) -> None:
        """Close the connection; a transaction still open is rolled back."""
        if self._opened is not None:
            self._opened.sync_connection.close()
            self._opened = None
        self._engine.dispose()
        self._committer.shutdown()

    async def _wait_turn(self) -> _Group | None:
        """Wait for the writer's turn. Return the group to join, or None to begin a new group."""
        if not self._is_taken:
            self._is_taken = True
            return None
        turn: asyncio.Future[_Group | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                await self._end_turn(turn.result())
            raise

    async def _begin(self) -> _Group:
        if self._opened is not None and self._opened.sync_connection.invalidated:
            self._opened.sync_connection.close()
            self._opened = None
        if self._opened is None:
            self._opened = SQLiteConnection(self._engine)
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                # This locks before the first read, so that no transaction must be repeated.
                self._opened.driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                # Another process has the lock; the event loop must not block on it.
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_BUSY_POLL_S)
            else:
                return _Group()

    def _undo_block(self, group: _Group, error: BaseException) -> None:
        """Undo the block's changes; after some errors SQLite has undone the whole transaction."""
        assert self._opened is not None
        if not group.blocks:
            self._roll_back()
            return
        try:
            self._opened.driver.execute("ROLLBACK TO block")
            self._opened.driver.execute("RELEASE block")
        except sqlite3.Error as lost:
            self._roll_back()
            # The other blocks get the database's error, without anything about this block's work.
            is_its = isinstance(error, sqlite3.OperationalError | OperationalError)
            group.lost = error if is_its else lost

    def _roll_back(self) -> None:
        """Roll back the transaction; a connection that fails to, or was lost, is not used again."""
        assert self._opened is not None
        try:
            self._opened.driver.rollback()
        except sqlite3.Error:
            self._opened.sync_connection.invalidate()

    async def _end_turn(self, group: _Group | None) -> None:
        """End the turn: the next writer joins the group, or the group is committed."""
        if group is not None and group.lost is not None:
            group.end(group.lost)
        elif group is not None and group.blocks:
            was_cancelled = False
            turns = _TURNS if self._is_busy and group.blocks < _MOST_BLOCKS else 0
            while turns and not self._waiting:
                # Tasks that are about to write join the group. A single writer does not wait for
                # them, because they run while the disk writes.
                was_cancelled = await _let_others_run() or was_cancelled
                turns -= 1
            if group.blocks == _MOST_BLOCKS or not self._wake_next_writer(group):
                await self._commit(group)
            if was_cancelled:
                await group.wait_for_end()
                raise asyncio.CancelledError
            return
        self._hand_over_turn(None)

    def _wake_next_writer(self, group: _Group | None) -> bool:
        """Give the turn to the first writer that still waits; return False if no writer waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(group)
                return True
        return False

    def _hand_over_turn(self, group: _Group | None) -> None:
        self._is_taken = self._wake_next_writer(group)

    async def _commit(self, group: _Group) -> None:
        assert self._opened is not None
        connection, driver = cast("AsyncConnection", self._opened), self._opened.driver
        self._is_busy = group.blocks > 1
        was_cancelled = False
        try:
            publish = await self._end_group(connection, group.recorded)
            # `run_in_executor` first checks for a coroutine, which takes as long as a statement.
            committed = asyncio.wrap_future(self._committer.submit(driver.commit))
            _, was_cancelled = await run_to_end(committed)
        except BaseException as error:
            self._roll_back()
            group.end(error)
        else:
            group.end()
            publish()
            if group.blocks > 1:
                # The writers before this one return first.
                was_cancelled = await _let_others_run() or was_cancelled
        finally:
            self._hand_over_turn(None)
        if was_cancelled:
            raise asyncio.CancelledError


async def _let_others_run() -> bool:
    """Let ready tasks run once, and return whether the caller was cancelled meanwhile."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return True
    return False


def on_connect(connection: Any, _record: object, *, writer: bool) -> None:
    """Make a new connection of the driver durable and strict: WAL with FULL survives a power loss.

    The writer's connection sets the file's mode to WAL, which then applies to all connections.
    """
    # Explicit transactions only (SQLAlchemy's SQLite documentation, "Serializable isolation").
    connection.isolation_level = None
    for pragma in (
        *(("journal_mode = WAL",) if writer else ()),
        "synchronous = FULL",
        "foreign_keys = ON",
        # Otherwise the data for undoing savepoints would be in a temporary file.
        "temp_store = MEMORY",
        f"busy_timeout = {0 if writer else int(BUSY_TIMEOUT_S * 1000)}",
    ):
        connection.execute(f"PRAGMA {pragma}")


class FileLock:
    """An exclusive lock of a database file; a missing file is created with mode 0600.

    Acquire it before SQLite opens the file and release it after SQLite closed the file. The kernel
    releases it when the process ends, even if the process is killed.

    Raises:
        HomeLocked: another process has the lock, or another `FileLock` of this process.
        StoreError: its file system has no locks.
        OSError: the file cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and _file_identity(os.stat(path)) in _held:
            raise _locked_error(path, os.getpid())
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._descriptor, path)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._identity = _file_identity(os.fstat(self._descriptor))
        _held.add(self._identity)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor >= 0:
            _held.discard(self._identity)
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int, path: Path) -> None:
    if _SET_LOCK is None:
        return
    try:
        fcntl.fcntl(descriptor, _SET_LOCK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _AT, _BYTES, 0))
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise StoreError(f"The database {path} cannot be locked: {error.strerror}") from None
        raise _locked_error(path, _find_lock_holder(descriptor)) from None


def _find_lock_holder(descriptor: int) -> int:
    """Return the id of a process that has the database open; 0 if it is not known."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_AT, _SHARED_BYTES, 0)
    try:
        kind, *_range, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    except OSError:
        return 0
    return 0 if kind == fcntl.F_UNLCK else max(0, int(process))


def _locked_error(path: Path, process: int) -> HomeLocked:
    by = f"process {process}" if process else "another process"
    return HomeLocked(
        f"The database {path} is in use by {by}; stop it, or set another DATABASE_URL"
    )


def _file_identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
