"""The ledger's SQLite file: each batch of calls is one transaction, durable at its commit.

Only one thread of one process uses it: the connection has SQLite's exclusive lock while it exists.
The lock ends with the process, even if the process is killed.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

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


class LedgerLocked(Exception):
    """Another process has this ledger file open."""


class LedgerMismatch(Exception):
    """The ledger file cannot be opened by this version, or is not a ledger of the localnet."""


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """The stored form of a transaction that landed.

    `signature` is base58. `block_time` is in seconds since the Unix epoch, `fee` in lamports. `err`
    is the transaction error in Agave's JSON shape, None on success. `wire` is the signed
    transaction as it was sent. Balances are lamports, one for each account of the message followed
    by the loaded addresses. `pre_token_balances` and `post_token_balances` hold
    `UiTransactionTokenBalance` objects. `inner_instructions` holds `{"index", "instructions":
    [{"programIdIndex", "accounts", "data" (base58), "stackHeight"}]}` objects. `return_data` is
    `{"programId", "data": [base64, "base64"]}` or None. `loaded_writable` and `loaded_readonly` are
    base58 addresses that came from lookup tables, in message order.
    """

    signature: str
    slot: int
    block_time: int
    err: Any | None
    fee: int
    wire: bytes
    compute_units: int
    log_messages: tuple[str, ...]
    pre_balances: tuple[int, ...]
    post_balances: tuple[int, ...]
    pre_token_balances: tuple[dict[str, Any], ...]
    post_token_balances: tuple[dict[str, Any], ...]
    inner_instructions: tuple[dict[str, Any], ...]
    loaded_writable: tuple[str, ...] = ()
    loaded_readonly: tuple[str, ...] = ()
    return_data: dict[str, Any] | None = None


_COLUMNS = ("signature", "slot", "block_time", "err", "wire")
_SELECT = "SELECT signature, slot, block_time, err, wire, detail FROM transactions"
# The other fields of a stored transaction, in one JSON object.
_DETAIL = tuple(each.name for each in fields(StoredTransaction) if each.name not in _COLUMNS)


class Storage:
    """One open ledger file. Writes open a transaction themselves; `commit` makes them durable."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file, or a ledger in memory for None.

        Raises:
            LedgerLocked: another process, or another localnet of this one, has it open.
            LedgerMismatch: the file is no ledger, or one of another version.
        """
        self._connection = _open_file(path)

    def close(self) -> None:
        """Close the file and release its lock; uncommitted changes are lost."""
        self._connection.close()

    @property
    def writing(self) -> bool:
        """True if there are writes to commit."""
        return self._connection.in_transaction

    def commit(self) -> None:
        """Make all writes since the last commit durable, in one step."""
        if self.writing:
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo all writes since the last commit."""
        if self.writing:
            self._connection.execute("ROLLBACK")

    def _write(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        if not self.writing:
            self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(sql, rows)

    def _row(self, sql: str, *values: Any) -> Any:
        """Return the first row of a query's result; None if the result is empty."""
        return self._connection.execute(sql, values).fetchone()

    def meta(self, name: str) -> bytes | None:
        """Return the value stored under `name`."""
        row = self._row("SELECT value FROM meta WHERE name = ?", name)
        return None if row is None else bytes(row[0])

    def put_meta(self, values: Mapping[str, bytes]) -> None:
        self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def accounts(self) -> Iterator[tuple[Pubkey, Account]]:
        """Yield every account; executable ones last, because they refer to accounts with code."""
        rows = self._connection.execute("SELECT * FROM accounts ORDER BY executable")
        for address, lamports, owner, executable, rent_epoch, data in rows:
            yield (
                Pubkey(address),
                Account(
                    lamports,
                    data,
                    Pubkey(owner),
                    bool(executable),
                    int.from_bytes(rent_epoch, "little"),
                ),
            )

    def put_accounts(self, accounts: Mapping[Pubkey, Account | None]) -> None:
        """Store the new state of each account; None deletes it."""
        living = [
            (
                bytes(address),
                account.lamports,
                bytes(account.owner),
                account.executable,
                account.rent_epoch.to_bytes(8, "little"),
                account.data,
            )
            for address, account in accounts.items()
            if account is not None
        ]
        closed = [(bytes(address),) for address, account in accounts.items() if account is None]
        if living:
            self._write("INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?, ?)", living)
        if closed:
            self._write("DELETE FROM accounts WHERE address = ?", closed)

    def total_lamports(self) -> int:
        """Return the lamports of all stored accounts together."""
        return int(self._row("SELECT coalesce(sum(lamports), 0) FROM accounts")[0])

    def largest_accounts(self, limit: int) -> list[tuple[Pubkey, int]]:
        """Return address and lamports of the accounts with the most lamports, largest first."""
        rows = self._connection.execute(
            "SELECT address, lamports FROM accounts ORDER BY lamports DESC LIMIT ?", (limit,)
        )
        return [(Pubkey(address), lamports) for address, lamports in rows]

    def put_transaction(
        self,
        record: StoredTransaction,
        *,
        message_hash: bytes,
        addresses: Iterable[Pubkey],
        memo: str | None,
    ) -> None:
        """Store a transaction that landed, under each of `addresses`."""
        detail = {name: getattr(record, name) for name in _DETAIL}
        seq = self.transaction_count() + 1
        self._write(
            "INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    seq,
                    record.signature,
                    message_hash,
                    record.slot,
                    record.block_time,
                    None if record.err is None else json.dumps(record.err),
                    memo,
                    record.wire,
                    json.dumps(detail, separators=(",", ":")),
                )
            ],
        )
        rows = [(bytes(address), seq) for address in dict.fromkeys(addresses)]
        self._write("INSERT INTO address_transactions VALUES (?, ?)", rows)

    def transaction_count(self) -> int:
        """Return the number of landed transactions, which are numbered from 1 without a gap."""
        return self._row("SELECT max(seq) FROM transactions")[0] or 0

    def transactions_between(self, first: int, last: int) -> int:
        """Count the transactions that landed in the slots from `first` to `last`."""
        query = "SELECT count(*) FROM transactions WHERE slot BETWEEN ? AND ?"
        return int(self._row(query, first, last)[0])

    def status(self, signature: str) -> tuple[int, Any | None] | None:
        """Return a landed transaction's slot and error (None: success); None if it did not land."""
        row = self._row("SELECT slot, err FROM transactions WHERE signature = ?", signature)
        return None if row is None else (row[0], _parse_error(row[1]))

    def has_message(self, message_hash: bytes) -> bool:
        """Return whether a transaction with this message has landed, with any signatures."""
        query = "SELECT 1 FROM transactions WHERE message_hash = ?"
        return self._row(query, message_hash) is not None

    def transaction(self, signature: str) -> StoredTransaction | None:
        """Return the stored transaction with this base58 signature."""
        row = self._row(_SELECT + " WHERE signature = ?", signature)
        return None if row is None else _from_row(row)

    def transactions_in(self, slot: int) -> list[StoredTransaction]:
        """Return the transactions that landed in `slot`, in order."""
        rows = self._connection.execute(_SELECT + " WHERE slot = ? ORDER BY seq", (slot,))
        return [_from_row(row) for row in rows]

    def sequence(self, signature: str) -> int | None:
        """Return a transaction's number in the order in which transactions landed."""
        row = self._row("SELECT seq FROM transactions WHERE signature = ?", signature)
        return None if row is None else int(row[0])

    def signatures_for(
        self, address: Pubkey, *, before: int | None, until: int | None, limit: int
    ) -> list[tuple[str, int, int, Any | None, str | None]]:
        """Return (signature, slot, block time, error, memo) by address, newest transactions first.

        Transactions are numbered strictly below `before` and strictly above `until`.
        """
        rows = self._connection.execute(
            "SELECT t.signature, t.slot, t.block_time, t.err, t.memo"
            " FROM address_transactions a JOIN transactions t ON t.seq = a.seq"
            " WHERE a.address = ? AND a.seq < ? AND a.seq > ? ORDER BY a.seq DESC LIMIT ?",
            (bytes(address), 2**62 if before is None else before, until or 0, limit),
        )
        return [(row[0], row[1], row[2], _parse_error(row[3]), row[4]) for row in rows]

    def stake_history(self) -> dict[int, tuple[int, int, int]]:
        """Return (effective, activating, deactivating) lamports of the newest 512 epochs."""
        rows = self._connection.execute("SELECT * FROM stake_history ORDER BY epoch DESC LIMIT 512")
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    def put_stake_history(self, entries: Mapping[int, tuple[int, int, int]]) -> None:
        rows = [(epoch, *entry) for epoch, entry in entries.items()]
        self._write("INSERT OR REPLACE INTO stake_history VALUES (?, ?, ?, ?)", rows)


def _open_file(path: Path | None) -> sqlite3.Connection:
    """Open or create the file, or a ledger in memory for None, without implicit transactions.

    The connection keeps SQLite's exclusive lock until it is closed, and may be used by any one
    thread at a time.
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
        _check_or_create(connection)
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


def _check_or_create(connection: sqlite3.Connection) -> None:
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
            f"the file has application id {application:#x} and version {version}, not "
            f"{APPLICATION_ID:#x} and {SCHEMA_VERSION}: open another file, or reset this one"
        )


def _from_row(row: Sequence[Any]) -> StoredTransaction:
    *values, text = row
    found = dict(zip(_COLUMNS, values, strict=True))
    found["err"] = _parse_error(found["err"])
    for name, value in json.loads(text).items():
        found[name] = tuple(value) if isinstance(value, list) else value
    return StoredTransaction(**found)


def _parse_error(text: str | None) -> Any | None:
    return None if text is None else json.loads(text)


def reset(path: Path) -> None:
    """Delete the ledger at `path` with SQLite's other files; do nothing if there is none.

    Raises:
        LedgerLocked: it is open in a localnet.
    """
    if path.exists():
        # A file that is not a ledger cannot be locked by one, so it is deleted as well.
        with contextlib.suppress(LedgerMismatch):
            Storage(path).close()
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
