"""Opening the ledger's SQLite file: its schema, its lock, and the refusal of any other file."""

import sqlite3
from pathlib import Path

from solward_localnet.errors import LedgerLocked, LedgerMismatch

APPLICATION_ID = 0x534F4C57
SCHEMA_VERSION = 1

_SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE accounts (
    address BLOB PRIMARY KEY, lamports INTEGER NOT NULL, owner BLOB NOT NULL,
    executable INTEGER NOT NULL, rent_epoch BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE transactions (
    seq INTEGER PRIMARY KEY, signature TEXT NOT NULL UNIQUE, message_hash BLOB NOT NULL UNIQUE,
    slot INTEGER NOT NULL, block_time INTEGER NOT NULL, err TEXT, memo TEXT, wire BLOB NOT NULL,
    detail TEXT NOT NULL);
CREATE INDEX transactions_by_slot ON transactions (slot);
CREATE TABLE address_transactions (
    address BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (address, seq)) WITHOUT ROWID;
CREATE TABLE stake_history (
    epoch INTEGER PRIMARY KEY, effective INTEGER NOT NULL, activating INTEGER NOT NULL,
    deactivating INTEGER NOT NULL);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""


def open_file(path: Path | None) -> sqlite3.Connection:
    """Open or create the file, or a ledger in memory for None; transactions are the caller's.

    The connection keeps SQLite's exclusive lock until it is closed, and may be used by any one
    thread at a time.

    Raises:
        LedgerLocked: another process, or another localnet of this one, has it open.
        LedgerMismatch: the file is no ledger, or one of another version.
    """
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite keeps the mode of an existing file, its journals' included.
        path.touch(mode=0o600)
    connection = sqlite3.connect(
        ":memory:" if path is None else path,
        isolation_level=None,
        check_same_thread=False,
        timeout=0,
    )
    try:
        _prepare(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" in str(error):
            raise LedgerLocked(f"{path} is open in another localnet") from None
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        raise LedgerMismatch(f"{path} is not a ledger of the localnet: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    run = connection.execute
    run("PRAGMA locking_mode = EXCLUSIVE")
    run("PRAGMA journal_mode = WAL")
    run("PRAGMA synchronous = FULL")
    # In exclusive mode the first write takes the lock, and it is then kept.
    run("BEGIN EXCLUSIVE")
    run("COMMIT")
    application = run("PRAGMA application_id").fetchone()[0]
    version = run("PRAGMA user_version").fetchone()[0]
    if application == 0 and not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
    elif (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
        raise LedgerMismatch(
            f"the file is of application {application:#x}, version {version}; expected "
            f"{APPLICATION_ID:#x}, version {SCHEMA_VERSION}: open another, or reset it"
        )
