"""Making a backup, also while the service runs."""

from __future__ import annotations

import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from solward import __version__
from solward.backup.archive import refuse_existing, write_archive
from solward.backup.manifest import DATABASE, KEY_FILE, LEDGER, NEXT_KEY_FILE, Manifest
from solward.backup.plugins import copy_plugins
from solward.backup.snapshot import copy_files
from solward.database import schema
from solward.database.database import Database, database_file
from solward.settings import Settings
from solward.support.clock import iso, now_ms
from solward.types.errors import BackupError, ConfigError, KeystoreError
from solward.vault.custody import KeySource, keyfile, keyring
from solward.vault.custody.keyring import KeystoreRow
from solward.vault.custody.keystore import keystore_row
from solward.vault.custody.service import KEY_FILE as HOME_KEY_FILE
from solward.vault.store import wallets as store

_POSTGRESQL = (
    "DATABASE_URL is a PostgreSQL database: back it up with its own tools (pg_dump, or its"
    " continuous archiving), and keep the keystore's key file or passphrase apart from it"
)


@dataclass(frozen=True, slots=True)
class Created:
    """A backup that was made.

    Attributes:
        left_out: files and records of plugins that are not in it, and why, in words.
    """

    manifest: Manifest
    left_out: tuple[str, ...]


async def create_backup(settings: Settings, file: Path, passphrase: str) -> Created:
    """Write database, key file, localnet ledger and plugins of the settings' home to `file`,
    encrypted.

    Only in a process of its own (see `snapshot.copy_files`). Temporary copies are made in the home.

    Raises:
        ConfigError: the database is not SQLite.
        BackupError: there is nothing to back up, it cannot be read, `file` exists already or
            cannot be written.
        KeystoreError: the key file is missing, open to others, or not this keystore's.
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
        manifest = await _describe(settings, folder, plugins)
        write_archive(file, folder, manifest, passphrase)
    finally:
        shutil.rmtree(folder)
    return Created(manifest, tuple(left_out))


def sqlite_file(settings: Settings) -> Path:
    """The database's file; raises `ConfigError` where a server holds the data."""
    file = database_file(settings.database_url, settings.solward_home)
    if file is None:
        raise ConfigError(_POSTGRESQL)
    return file


async def _describe(settings: Settings, folder: Path, plugins: list[str]) -> Manifest:
    database = Database.inspect(None, folder)
    try:
        async with database.read() as connection:
            revision = await schema.revision(connection)
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
    names = [name for name in (DATABASE, KEY_FILE, NEXT_KEY_FILE, LEDGER)
             if (folder / name).exists()]  # fmt: skip
    return Manifest(
        version=__version__,
        created=iso(now_ms()),
        network=settings.solana_network,
        revision=str(revision),
        keystore=kind,
        wallets={row["id"]: row["public_key"] for row in wallets},
        files={name: (folder / name).stat().st_size for name in (*names, *plugins)},
    )


async def _copy_key(settings: Settings, folder: Path, newest: KeystoreRow) -> None:
    """Copy the key file, and check that it opens the copied keystore.

    A descriptor's path (/dev/fd/3) means that the operator stores the key elsewhere: it is checked
    and not copied.
    """
    original = settings.keystore_key_file or settings.solward_home / HOME_KEY_FILE
    if original.exists() and not stat.S_ISREG(original.stat().st_mode):
        await keyring.unlock(KeySource(file=original), newest)
        return
    copies = {original: folder / KEY_FILE, keyring.next_file(original): folder / NEXT_KEY_FILE}
    for source, copy in copies.items():
        if source.exists():
            copy.touch(mode=0o600)
            copy.write_bytes(keyfile.read_key(source))
    try:
        await keyring.unlock(KeySource(file=folder / KEY_FILE), newest)
    except KeystoreError as error:
        raise KeystoreError(str(error).replace(str(folder / KEY_FILE), str(original))) from None
