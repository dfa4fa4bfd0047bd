"""Copies of a home's SQLite files as of one moment, also while a service writes to them.

Every transaction in the ledger's copy is recorded in the database's copy: transactions are stored
before they are sent (docs/exactly-once.md), and no database transaction can commit between the two
copies. Transactions in flight are reconciled at the next start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from solward.types.errors import BackupError

_BUSY_S = 10.0
_TRIES = 40
_PAUSE_S = 0.1
# Coarser than any file system's clock: a file changed more recently may change again in the same
# tick without a new modification time.
_SETTLED_NS = 50_000_000
_WAL_HEADER_BYTES = 32


def copy_files(database: Path, ledger: Path | None, folder: Path) -> tuple[Path, Path | None]:
    """Copy the database, and the localnet's ledger where there is one, into `folder`.

    Only in a process of its own: closing a file releases the locks of SQLite's connections to it in
    the same process (sqlite.org, "How To Corrupt An SQLite Database File", 2.2).

    Returns:
        Both copies, each complete without a write-ahead log.

    Raises:
        BackupError: a file cannot be read, or is written without a pause.
    """
    database_copy = folder / "solward.db"
    try:
        with _connected(database) as reader:
            if ledger is None:
                _begin(reader)
                ledger_copy = None
            else:
                ledger_copy = folder / "localnet.db"
                _copy_ledger(database, reader, ledger, ledger_copy)
            os.close(os.open(database_copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with _connected(database_copy) as target:
                # The state at the start of this connection's transaction.
                reader.backup(target)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"The data of this home cannot be copied: {error}") from None
    return database_copy, ledger_copy


def check_file(path: Path) -> None:
    """Raise `BackupError` unless the SQLite file is whole."""
    try:
        with _connected(path) as connection:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        result = str(error)
    if result != "ok":
        raise BackupError(f"{path.name} is damaged: {result}")


def _copy_ledger(
    database: Path, reader: sqlite3.Connection, ledger: Path, ledger_copy: Path
) -> None:
    """Copy the ledger, and begin `reader`'s transaction at the moment of that copy.

    A running localnet locks its file, so its bytes are copied, not its rows. They change only when
    a checkpoint merges the write-ahead log; after one in between, the copy starts again.
    """
    log, log_copy = _log_of(ledger), _log_of(ledger_copy)
    for _ in range(_TRIES):
        before = _settled(ledger)
        # The larger file first, while writers need not wait.
        shutil.copyfile(ledger, ledger_copy)
        ledger_copy.chmod(0o600)
        with _no_writer(database):
            header = _start_of(log)
            log_copy.write_bytes(log.read_bytes() if log.exists() else b"")
            if _state(ledger) == before and _start_of(log) == header:
                _begin(reader)
                break
        time.sleep(_PAUSE_S)
    else:
        raise BackupError("The localnet's ledger is being written without a pause; try again")
    with _connected(ledger_copy) as merged:
        merged.execute("PRAGMA journal_mode = DELETE")
    check_file(ledger_copy)


@contextlib.contextmanager
def _no_writer(database: Path) -> Iterator[None]:
    """Block writers of the database; the service waits for the lock for seconds."""
    with _connected(database) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    address = f"file:{quote(str(path))}?mode=rw"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_BUSY_S)
    try:
        yield connection
    finally:
        connection.close()


def _begin(reader: sqlite3.Connection) -> None:
    """Fix what `reader` sees until it is closed."""
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _settled(path: Path) -> tuple[int, int]:
    """The file's state, once a later change must show a new modification time."""
    for _ in range(_TRIES):
        if abs(time.time_ns() - path.stat().st_mtime_ns) > _SETTLED_NS:
            break
        time.sleep(_SETTLED_NS / 1e9)
    return _state(path)


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _start_of(path: Path) -> bytes:
    """The header of a write-ahead log, which changes when the log is restarted."""
    try:
        with path.open("rb") as file:
            return file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""
