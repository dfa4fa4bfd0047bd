"""Copies of a home's SQLite files as of one moment, also while a service writes to them.

Whatever the ledger's copy shows as landed, the database's copy has on record: nothing is sent
before it is stored (docs/exactly-once.md), and the two moments are one, because no transaction
of the database can end between them. What was in flight is found again at the next start.
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

from solward.errors import BackupError

_BUSY_S = 10.0
_TRIES = 40
_PAUSE_S = 0.1
# Coarser than any file system's own clock: a file changed more recently may change again within
# the same tick, and show no later time for it.
_SETTLED_NS = 50_000_000
_WAL_HEADER_BYTES = 32


def copy_files(database: Path, ledger: Path | None, folder: Path) -> tuple[Path, Path | None]:
    """Copy the database, and the localnet's ledger where there is one, into `folder`.

    For a process of its own: closing a file gives up the locks of SQLite's connections to it in
    the same process (sqlite.org, "How To Corrupt An SQLite Database File", 2.2).

    Returns:
        Both copies, each one file that needs no other beside it.

    Raises:
        BackupError: a file cannot be read, or is being written without a pause.
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
                # From the state this connection's transaction began with, whatever came after.
                reader.backup(target)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"The data of this home cannot be copied: {error}") from None
    return database_copy, ledger_copy


def check_file(path: Path) -> None:
    """Raise `BackupError` unless the SQLite file is whole."""
    try:
        with _connected(path) as connection:
            (told,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        told = str(error)
    if told != "ok":
        raise BackupError(f"{path.name} is damaged: {told}")


def _copy_ledger(
    database: Path, reader: sqlite3.Connection, ledger: Path, ledger_copy: Path
) -> None:
    """Copy the ledger, and begin `reader`'s transaction at the moment its copy shows.

    A running localnet keeps its file locked, so that its bytes are copied, not its rows: they stay
    as they are until a checkpoint moves what the write-ahead log gathered. When one came in
    between, all of it is done again.
    """
    log, log_copy = _log_of(ledger), _log_of(ledger_copy)
    for _ in range(_TRIES):
        before = _settled(ledger)
        # The larger part, before anybody has to wait.
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
    """Hold back every writer of the database; the service waits for its turn for seconds."""
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
    """The file's state, taken when no change of the same tick can hide behind it."""
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
    """The header of a write-ahead log, which changes when it is begun anew."""
    try:
        with path.open("rb") as file:
            return file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""
