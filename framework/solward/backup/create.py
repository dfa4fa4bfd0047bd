"""Makes a backup: copies a home's files in their state at one moment, even while a service writes.

Every transaction in the ledger's copy is recorded in the database's copy: transactions are stored
before they are sent (docs/assurance/exactly-once.md), and no database transaction can commit
between the two copies. Transactions in flight are reconciled at the next start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from solward import __version__
from solward.backup.archive import (
    DATABASE,
    FILES,
    KEY_FILE,
    LEDGER,
    NEXT_KEY_FILE,
    Manifest,
    copy_plugins,
    refuse_existing,
    write_archive,
)
from solward.database.database import Database, database_file
from solward.database.schema import has_schema, schema_of
from solward.settings import Settings
from solward.support.clock import iso, now_ms
from solward.types.errors import BackupError, ConfigError, KeystoreError
from solward.vault.custody import KeySource, keyring
from solward.vault.custody.keyring import KeystoreRow
from solward.vault.custody.keystore import keystore_row
from solward.vault.custody.service import KEY_FILE as HOME_KEY_FILE
from solward.vault.store import wallets as store

_POSTGRESQL = (
    "DATABASE_URL is a PostgreSQL database: back it up with PostgreSQL's tools (pg_dump, or"
    " continuous archiving), and keep the keystore's key file or passphrase apart from the backup"
)

_BUSY_S = 10.0
_TRIES = 40
_PAUSE_S = 0.1
# This is longer than a tick of any file system's clock. A file that changed more recently may
# change again in the same tick without a new modification time.
_SETTLED_NS = 50_000_000
_WAL_HEADER_BYTES = 32


@dataclass(frozen=True, slots=True)
class CreatedBackup:
    """A backup that was made.

    Attributes:
        left_out: for each omitted file or record of a plugin, a sentence that says why.
    """

    manifest: Manifest
    left_out: tuple[str, ...]


async def create_backup(settings: Settings, file: Path, passphrase: str) -> CreatedBackup:
    """Write a home's database, key file, localnet ledger and plugins to the encrypted `file`.

    Call it in a process of its own (see `copy_files`). Temporary copies are made in the home.

    Raises:
        ConfigError: the database is not SQLite.
        BackupError: there is nothing to back up, a file cannot be read, or `file` exists or cannot
            be written.
        KeystoreError: the key file is missing, accessible to others, or of another keystore.
    """
    home = settings.solward_home
    database = sqlite_file(settings)
    if not database.is_file():
        raise BackupError(f"There is nothing to back up: no database at {database}")
    refuse_existing(file)
    ledger = settings.localnet_path if settings.localnet_path.is_file() else None
    folder = Path(tempfile.mkdtemp(prefix=".backup-", dir=home))
    try:
        copy_files(database, ledger, folder)
        plugins, left_out = copy_plugins(home, folder)
        manifest = await _make_manifest(settings, folder, plugins)
        write_archive(file, folder, manifest, passphrase)
    finally:
        shutil.rmtree(folder)
    return CreatedBackup(manifest, tuple(left_out))


def sqlite_file(settings: Settings) -> Path:
    """Return the database's file; raises `ConfigError` if the database is on a server."""
    file = database_file(settings.database_url, settings.solward_home)
    if file is None:
        raise ConfigError(_POSTGRESQL)
    return file


async def _make_manifest(settings: Settings, folder: Path, plugins: list[str]) -> Manifest:
    database = Database.inspect(None, folder)
    try:
        async with database.read() as connection:
            await has_schema(connection)
            rows = await store.keystore_rows(connection)
            wallets = await store.list_wallets(connection)
    finally:
        await database.close()
    kind = "none"
    if rows:
        newest = keystore_row(rows[0])
        kind = "passphrase" if newest.kdf.get("kind") == "argon2id" else "file"
        if kind == "file":
            await _copy_key(settings, folder, newest)
    names = [name for name in FILES if (folder / name).exists()]
    return Manifest(
        version=__version__,
        created=iso(now_ms()),
        network=settings.solana_network,
        schema=schema_of("sqlite"),
        keystore=kind,
        wallets={row["id"]: row["public_key"] for row in wallets},
        files={name: (folder / name).stat().st_size for name in (*names, *plugins)},
    )


async def _copy_key(settings: Settings, folder: Path, newest: KeystoreRow) -> None:
    """Copy the key file, and check that it opens the copied keystore.

    A descriptor's path (/dev/fd/3) means that the operator stores the key elsewhere, so it is
    checked and not copied.
    """
    original = settings.keystore_key_file or settings.solward_home / HOME_KEY_FILE
    if original.exists() and not stat.S_ISREG(original.stat().st_mode):
        await keyring.unlock(KeySource(file=original), newest)
        return
    copies = {original: folder / KEY_FILE, keyring.next_file(original): folder / NEXT_KEY_FILE}
    for source, copy in copies.items():
        if source.exists():
            copy.touch(mode=0o600)
            copy.write_bytes(keyring.read_key(source))
    try:
        await keyring.unlock(KeySource(file=folder / KEY_FILE), newest)
    except KeystoreError as error:
        raise KeystoreError(str(error).replace(str(folder / KEY_FILE), str(original))) from None


def copy_files(database: Path, ledger: Path | None, folder: Path) -> None:
    """Copy the database, and the localnet's ledger if there is one, into `folder`.

    The copies need no write-ahead log. Call it in a process of its own: closing a file releases the
    locks of SQLite's connections to it in the same process (sqlite.org, "How To Corrupt An SQLite
    Database File", 2.2).

    Raises:
        BackupError: a file cannot be read, or is being written without pause.
    """
    copy = folder / DATABASE
    try:
        with _open_database(database) as reader:
            if ledger is None:
                _begin_reading(reader)
            else:
                _copy_ledger(database, reader, ledger, folder / LEDGER)
            os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with _open_database(copy) as target:
                # It copies the state at the start of this connection's transaction.
                reader.backup(target)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"The data of this home cannot be copied: {error}") from None


def check_file(path: Path) -> None:
    """Raise `BackupError` if the SQLite file is damaged."""
    try:
        with _open_database(path) as connection:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        result = str(error)
    if result != "ok":
        raise BackupError(f"{path.name} is damaged: {result}")


def _copy_ledger(
    database: Path, reader: sqlite3.Connection, ledger: Path, ledger_copy: Path
) -> None:
    """Copy the ledger, and begin a database transaction that sees the moment of the copy.

    A running localnet locks its file, so the bytes are copied, not the rows. They change only when
    a checkpoint merges the write-ahead log; if that happens, the copy starts again.
    """
    log, log_copy = _wal_path(ledger), _wal_path(ledger_copy)
    for _ in range(_TRIES):
        before = _settled_state(ledger)
        # The larger file is copied first, when writers need not wait yet.
        shutil.copyfile(ledger, ledger_copy)
        ledger_copy.chmod(0o600)
        with _block_writers(database):
            header = _wal_header(log)
            log_copy.write_bytes(log.read_bytes() if log.exists() else b"")
            if _file_state(ledger) == before and _wal_header(log) == header:
                _begin_reading(reader)
                break
        time.sleep(_PAUSE_S)
    else:
        raise BackupError("The localnet's ledger is being written without a pause; try again")
    with _open_database(ledger_copy) as merged:
        merged.execute("PRAGMA journal_mode = DELETE")
    check_file(ledger_copy)


@contextlib.contextmanager
def _block_writers(database: Path) -> Iterator[None]:
    """Block the database's writers during the block; the service waits some seconds for them."""
    with _open_database(database) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


@contextlib.contextmanager
def _open_database(path: Path) -> Iterator[sqlite3.Connection]:
    address = f"file:{quote(str(path))}?mode=rw"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_BUSY_S)
    try:
        yield connection
    finally:
        connection.close()


def _begin_reading(reader: sqlite3.Connection) -> None:
    """Begin `reader`'s transaction, so that it sees one state until it is closed."""
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _settled_state(path: Path) -> tuple[int, int]:
    """Wait until a further change must give the file another time; return the file's state."""
    for _ in range(_TRIES):
        if abs(time.time_ns() - path.stat().st_mtime_ns) > _SETTLED_NS:
            break
        time.sleep(_SETTLED_NS / 1e9)
    return _file_state(path)


def _file_state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _wal_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _wal_header(path: Path) -> bytes:
    """Return a write-ahead log's header, which changes when SQLite restarts the log."""
    try:
        with path.open("rb") as file:
            return file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""
