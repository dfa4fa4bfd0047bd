"""Restores a backup after a drill, which opens every wallet's key and compares it with the database
and the manifest.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from solward.backup.archive import (
    DATABASE,
    FOLDERS,
    KEY_FILE,
    LEDGER,
    NEXT_KEY_FILE,
    Manifest,
    read_archive,
    refused_plugins,
)
from solward.backup.create import check_file, sqlite_file
from solward.database.database import Database
from solward.database.schema import has_schema, schema_of
from solward.plugins.folders.layout import plugins_folder
from solward.settings import Settings
from solward.settings.home import LOCK_NAME, Home
from solward.support.atomic_files import sync_folder
from solward.support.clock import now_ms
from solward.types.errors import BackupError, KeystoreError
from solward.vault.custody import KeySource, keyring
from solward.vault.custody.envelope import open_envelope
from solward.vault.custody.keystore import envelope_of, keystore_row
from solward.vault.custody.service import KEY_FILE as HOME_KEY_FILE
from solward.vault.store import wallets as store

# This is more than a wallet uses between two backups.
SKIPPED_POCKETS = 1_000

_BATCH = 500


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """A backup that passed the drill, and was restored if requested.

    Attributes:
        keys: the number of keys that open and match the database and the manifest.
        left_out: distribution -> why its plugins are not in the restored home.
    """

    manifest: Manifest
    keys: int
    left_out: Mapping[str, str]


async def verify_backup(
    settings: Settings, file: Path, passphrase: str, keystore_passphrase: Callable[[], str]
) -> RestoredBackup:
    """Run the restore drill in a temporary folder (mode 0700).

    Raises:
        BackupError, KeystoreError: as `restore_backup`.
    """
    folder = Path(tempfile.mkdtemp(prefix="solward-drill-"))
    try:
        manifest = read_archive(file, folder, passphrase)
        keys = await run_drill(folder, manifest, keystore_passphrase, settings.keystore_key_file)
        left_out = refused_plugins(folder)
    finally:
        shutil.rmtree(folder)
    return RestoredBackup(manifest, keys, left_out)


async def restore_backup(
    settings: Settings, file: Path, passphrase: str, keystore_passphrase: Callable[[], str]
) -> RestoredBackup:
    """Restore into the settings' home, which must be empty, if the drill passes.

    The restored service is frozen. If there is an error, the home is not changed.

    Args:
        passphrase: the backup's passphrase.
        keystore_passphrase: returns the keystore's passphrase; called only if it has one.

    Raises:
        ConfigError: the settings' database is not SQLite.
        HomeLocked: a service runs on this home.
        BackupError: the home, or the place of the database or key file, is not empty; the file is
            no backup, is damaged, has another passphrase or a newer version; a key does not match.
        KeystoreError: the keystore's secret is missing, or not the right one.
    """
    database = sqlite_file(settings)
    with _empty_home(settings.solward_home) as folder:
        places = _target_paths(settings, database)
        for place in places.values():
            if place.exists():
                raise BackupError(f"{place} exists already; a restore overwrites nothing")
        manifest = read_archive(file, folder, passphrase)
        keys = await run_drill(folder, manifest, keystore_passphrase, settings.keystore_key_file)
        prevent_repeats(folder / DATABASE, manifest.created)
        left_out = refused_plugins(folder)
        for name in left_out:
            shutil.rmtree(plugins_folder(folder) / name)
        for top in FOLDERS:
            if (folder / top).is_dir():
                _move_file(folder / top, settings.solward_home / top)
        # The database is moved last, because without it a half restored home cannot be served.
        for name in (KEY_FILE, NEXT_KEY_FILE, LEDGER, DATABASE):
            if (folder / name).exists():
                _move_file(folder / name, places[name])
    return RestoredBackup(manifest, keys, left_out)


def prevent_repeats(database: Path, made: str) -> None:
    """Change a restored database so that the service repeats nothing it did after the backup.

    Each wallet's pocket counters skip those used after the backup: using one twice would make a key
    that others already know. Holds expire at the next start, because a hold paid after the backup
    could be approved and paid again. The service is frozen until a person looks: transactions sent
    after the backup have no record, so limits do not count them, and retries would pay again.

    Args:
        made: the time of the backup.
    """
    with closing(sqlite3.connect(database)) as connection, connection:
        # The address is a placeholder, because the skipped pockets were never derived here.
        connection.execute(
            "INSERT INTO pockets"
            " (wallet_id, counter, address, mints, state, at_risk, created_ms)"
            " SELECT id, last + ?, 'skipped ' || id || ' ' || (last + ?), '[]', 'empty', '{}', ?"
            " FROM (SELECT wallets.id AS id, coalesce(max(pockets.counter), 0) AS last"
            " FROM wallets LEFT JOIN pockets ON pockets.wallet_id = wallets.id"
            " GROUP BY wallets.id)",
            (SKIPPED_POCKETS, SKIPPED_POCKETS, now_ms()),
        )
        # 0 is earlier than any time of the windows' clock when the service starts.
        connection.execute("UPDATE holds SET expires_ms = 0 WHERE state IN ('held', 'approved')")
        connection.execute(
            "INSERT INTO switches (scope, frozen, reason, changed_ms) VALUES ('service', 1, ?, ?)"
            " ON CONFLICT (scope) DO UPDATE SET frozen = 1, reason = excluded.reason,"
            " changed_ms = excluded.changed_ms WHERE NOT frozen",
            (f"restored from the backup of {made}", now_ms()),
        )


def _target_paths(settings: Settings, database: Path) -> dict[str, Path]:
    key = settings.keystore_key_file or settings.solward_home / HOME_KEY_FILE
    return {
        DATABASE: database,
        LEDGER: settings.localnet_path,
        KEY_FILE: key,
        NEXT_KEY_FILE: keyring.next_file(key),
    }


@contextmanager
def _empty_home(home: Path) -> Iterator[Path]:
    """Lock the home and make a working folder in it; if the block raises, remove all new files."""
    existed = home.exists()
    with Home.opened(home):
        present = sorted(each.name for each in home.iterdir() if each.name != LOCK_NAME)
        if present:
            raise BackupError(
                f"SOLWARD_HOME {home} is not empty: it holds {present[0]}; a restore needs an empty"
                " one, so set another SOLWARD_HOME or move this one away"
            )
        folder = Path(tempfile.mkdtemp(prefix=".restore-", dir=home))
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder)
            (home / LOCK_NAME).unlink()
            if not existed:
                home.rmdir()
            raise
        shutil.rmtree(folder)
        sync_folder(home)


def _move_file(source: Path, place: Path) -> None:
    """Move a file durably, even to another file system."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        source.rename(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise BackupError(f"{place} cannot be written: {error.strerror}") from None
        beside = place.with_name(f".{place.name}.{os.getpid()}.new")
        shutil.copy2(source, beside)
        descriptor = os.open(beside, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.rename(place)
    sync_folder(place.parent)


async def run_drill(
    folder: Path,
    manifest: Manifest,
    passphrase: Callable[[], str],
    key_file: Path | None = None,
) -> int:
    """Check that the files in `folder` can be served; return how many keys open and match.

    Args:
        passphrase: returns the keystore's passphrase; called only if it has one.
        key_file: the keystore's key file, if the backup has none.

    Raises:
        BackupError: a file is damaged or has another version, a key does not open, or the wallets
            are not those in the manifest.
        OtherSchema: the database's schema is not the one in the manifest.
        KeystoreError: the keystore's secret is missing, or not the right one.
    """
    if manifest.schema != schema_of("sqlite"):
        raise BackupError(
            f"Another version of Solward made the backup ({manifest.version}): restore it with that"
            " version, and export the wallets' keys there (solward wallet export)"
        )
    check_file(folder / DATABASE)
    if LEDGER in manifest.files:
        check_file(folder / LEDGER)
    database = Database.inspect(None, folder)
    try:
        return await _open_every_key(database, folder, manifest, passphrase, key_file)
    finally:
        await database.close()


async def _open_every_key(
    database: Database,
    folder: Path,
    manifest: Manifest,
    passphrase: Callable[[], str],
    key_file: Path | None,
) -> int:
    async with database.read() as connection:
        await has_schema(connection)
        rows = await store.keystore_rows(connection)
        stored = {row["id"]: row["public_key"] for row in await store.list_wallets(connection)}
    if stored != dict(manifest.wallets):
        raise BackupError("The wallets in the backup's database are not those of its manifest")
    if not rows:
        if stored:
            raise BackupError("The backup's database has wallets and no keystore")
        return 0
    newest = keystore_row(rows[0])
    ring = await keyring.unlock(_key_source(newest, folder, passphrase, key_file), newest)
    opened, after, wrong = 0, "", ""
    for version in sorted({row["kek_version"] for row in rows}):
        while True:
            async with database.read() as connection:
                batch = await store.wallets_under(connection, version, after, _BATCH)
            for row in batch:
                try:
                    open_envelope(ring.kek(version), envelope_of(row))
                    opened += 1
                except KeystoreError as error:
                    wrong = wrong or str(error)
            if not batch:
                break
            after = batch[-1]["id"]
        after = ""
    if opened != len(stored):
        raise BackupError(f"{opened} of {len(stored)} keys open and match. {wrong}".strip())
    return opened


def _key_source(
    newest: keyring.KeystoreRow,
    folder: Path,
    passphrase: Callable[[], str],
    key_file: Path | None,
) -> KeySource:
    if newest.kdf.get("kind") == "argon2id":
        return KeySource(passphrase=passphrase())
    copy = folder / KEY_FILE
    return KeySource(file=copy if copy.exists() or key_file is None else key_file)
