"""Exports a wallet's key from the keystore; needs the keystore's secret and records an audit event.

Only the offline command uses this module: no route, skill or plugin reaches it. The event is
recorded in the database transaction during which the file is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from solders.keypair import Keypair
from sqlalchemy import null, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.database import Database
from solward.database.tables import schedules
from solward.support.atomic_files import sync_folder
from solward.types.errors import InvalidRequest, KeystoreError
from solward.types.events import EventKind
from solward.types.roles import is_key
from solward.vault.custody import keyring
from solward.vault.custody.envelope import open_envelope
from solward.vault.custody.keyring import KeySource, KeystoreRow
from solward.vault.custody.keystore import envelope_of, keystore_row
from solward.vault.custody.model import Wallet
from solward.vault.store import wallets as store


async def newest_keystore(database: Database) -> KeystoreRow:
    """Return the stored row of the newest KEK version; raises `KeystoreError`."""
    async with database.read() as connection:
        rows = await store.keystore_rows(connection)
    if not rows:
        raise KeystoreError("The database has no keystore and no wallet")
    return keystore_row(rows[0])


def choose(wallets: list[Wallet], wanted: str) -> Wallet:
    """Return the wallet with this id, address or unique name. If several share a name, return the
    one that no API key made. Raises `InvalidRequest`."""
    matches = [each for each in wallets if wanted in (each.id, each.address)]
    matches = matches or [each for each in wallets if each.name == wanted]
    if len(matches) > 1:
        own = [each for each in matches if not is_key(each.created_by)]
        matches = own or matches
    if not matches:
        raise InvalidRequest(f"No wallet here has the id, address or name {wanted!r}")
    if len(matches) > 1:
        ids = ", ".join(each.id for each in matches)
        raise InvalidRequest(f"{len(matches)} wallets have the name {wanted!r}; use an id: {ids}")
    return matches[0]


async def export_wallet(
    database: Database, source: KeySource, newest: KeystoreRow, wallet: Wallet, file: Path
) -> None:
    """Write a wallet's key to a new Solana CLI keypair file, mode 0600, and record the export.

    Raises:
        KeystoreError: `source` is not this keystore's secret, or the key was tampered with.
        InvalidRequest: the file exists already, or cannot be written; nothing is recorded.
        StoreError: the database refused the record; the file is removed again.
    """
    ring = await keyring.unlock(source, newest)
    database.audit_key = ring.audit_key
    async with database.read() as connection:
        row = await store.get_wallet(connection, wallet.id)
    if row is None:
        raise InvalidRequest(f"Wallet {wallet.id} no longer exists")
    envelope = envelope_of(row)
    keypair = open_envelope(ring.kek(envelope.kek_version), envelope)
    written = False
    try:
        async with database.write() as connection:
            data = {"walletId": wallet.id, "name": wallet.name, "address": wallet.address}
            record_act(connection, EventKind.WALLET_EXPORTED, data)
            # From now on whoever has the file can spend, and schedules do not expect that.
            await _pause_schedules(connection, wallet.id, "The wallet's key was exported")
            write_keypair(file, keypair)
            written = True
    except BaseException:
        if written:
            _remove_file(file)
        raise


def write_keypair(file: Path, keypair: Keypair) -> None:
    """Write a new keypair file; raises `InvalidRequest` if it exists or cannot be written."""
    text = json.dumps(list(bytes(keypair)))
    try:
        # O_EXCL never writes over a file or through a link, so never onto a terminal or a pipe.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise _file_exists_error(file) from None
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(descriptor)
        sync_folder(file.parent)
    except OSError as error:
        _remove_file(file)
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}") from None


def check_file_free(file: Path) -> None:
    """Raise `InvalidRequest` if the file, or a link with its name, exists."""
    if os.path.lexists(file):
        raise _file_exists_error(file)


def _file_exists_error(file: Path) -> InvalidRequest:
    return InvalidRequest(f"{file} exists already; choose another name")


def _remove_file(file: Path) -> None:
    file.unlink()


async def _pause_schedules(connection: AsyncConnection, wallet_id: str, reason: str) -> None:
    """Pause every active schedule of a wallet, and record it in the audit log."""
    statement = (
        update(schedules)
        .where(schedules.c.wallet_id == wallet_id, schedules.c.status == "active")
        .values(status="paused", reason=reason, next_due_ms=null())
        .returning(schedules.c.id, schedules.c.name)
    )
    for row in (await connection.execute(statement)).all():
        subject = {"scheduleId": row.id, "walletId": wallet_id, "name": row.name}
        record_act(connection, EventKind.SCHEDULE_PAUSED, subject | {"reason": reason})
