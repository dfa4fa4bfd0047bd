"""The restore drill: every wallet's key is opened and compared with database and manifest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from solward.backup.manifest import DATABASE, KEY_FILE, LEDGER, Manifest
from solward.backup.snapshot import check_file
from solward.database import schema
from solward.database.database import Database
from solward.types.errors import BackupError, KeystoreError
from solward.vault.custody import KeySource, keyring
from solward.vault.custody.envelope import open_envelope
from solward.vault.custody.keystore import envelope_of, keystore_row
from solward.vault.store import wallets as store

_BATCH = 500


async def drill(
    folder: Path,
    manifest: Manifest,
    passphrase: Callable[[], str],
    key_file: Path | None = None,
) -> int:
    """Check that the files in `folder` can be served; returns how many keys open and match.

    Args:
        passphrase: called for the keystore's passphrase, where it has one.
        key_file: the keystore's, where the backup has none.

    Raises:
        BackupError: a file is damaged or of a newer version, a key does not open, or the wallets
            are not those of the manifest.
        KeystoreError: the keystore's secret is missing, or not the right one.
    """
    if manifest.revision > schema.HEAD:
        raise BackupError(
            f"The backup was made by a newer version of Solward ({manifest.version}): its"
            f" database is at revision {manifest.revision}, this one knows up to {schema.HEAD}"
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
        rows = await store.keystore_rows(connection)
        stored = {row["id"]: row["public_key"] for row in await store.list_wallets(connection)}
    if stored != dict(manifest.wallets):
        raise BackupError("The wallets in the backup's database are not those of its manifest")
    if not rows:
        if stored:
            raise BackupError("The backup's database has wallets and no keystore")
        return 0
    newest = keystore_row(rows[0])
    ring = await keyring.unlock(_source(newest, folder, passphrase, key_file), newest)
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


def _source(
    newest: keyring.KeystoreRow,
    folder: Path,
    passphrase: Callable[[], str],
    key_file: Path | None,
) -> KeySource:
    if newest.kdf.get("kind") == "argon2id":
        return KeySource(passphrase=passphrase())
    copy = folder / KEY_FILE
    return KeySource(file=copy if copy.exists() or key_file is None else key_file)
