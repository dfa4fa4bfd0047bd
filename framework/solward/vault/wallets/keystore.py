"""The keystore in the database: opened at start, rotated in batches that survive a kill."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.clock import now_ms
from solward.errors import KeystoreError
from solward.vault.store import wallets as store
from solward.vault.store.database import Database, lock_exclusive, lock_shared
from solward.vault.wallets import keyfile, keyring
from solward.vault.wallets.envelope import Envelope, Keyring, rewrap
from solward.vault.wallets.keyring import KeySource, KeystoreRow

_BATCH = 500

# Lock on a shared database: shared while a key is sealed under the newest version, exclusive while
# a version is made.
_VERSIONS = "keystore"
# Lock of a rotation from beginning to end.
_ROTATION = "keystore-rotation"

_log = structlog.get_logger(__name__)


class Keystore:
    """The unlocked keyring of a store, `keyring`."""

    def __init__(self, database: Database, ring: Keyring) -> None:
        self._database = database
        self.keyring = ring

    @classmethod
    async def open(cls, database: Database, source: KeySource) -> Keystore:
        """Unlock it, or make it in an empty store; finish a rotation that was interrupted.

        A wallet that was tampered with leaves the rotation unfinished; the other wallets work.

        Raises:
            KeystoreError: the secret is not this keystore's, is missing, or is open to others.
        """
        async with database.read() as connection:
            rows = await store.keystore_rows(connection)
        if not rows:
            async with database.write() as connection:
                # Of processes that start together one makes the keystore.
                await lock_exclusive(connection, _VERSIONS)
                rows = await store.keystore_rows(connection)
                if not rows:
                    ring, row = await keyring.create(source)
                    await store.insert_keystore(connection, _fields(row))
                    return cls(database, ring)
        opened = cls(database, await keyring.unlock(source, keystore_row(rows[0])))
        try:
            await opened._finish_rotation()
        except KeystoreError as error:
            _log.error("keystore_rotation_unfinished", error=str(error))
        return opened

    async def newest(self, connection: AsyncConnection) -> Keyring:
        """The keyring to seal a new key with, which stays the newest until the transaction ends.

        Raises:
            KeystoreError: another process rotated the keystore; a key sealed under the old version
                could never be opened.
        """
        if self._database.shared:
            await lock_shared(connection, _VERSIONS)
            rows = await store.keystore_rows(connection)
            if rows[0]["kek_version"] != self.keyring.version:
                raise KeystoreError(
                    "The keystore was rotated since this process started; start it again with the"
                    " new secret"
                )
        return self.keyring

    async def rotate(self, new: KeySource) -> int:
        """Begin a new KEK version and move every wallet to it; returns how many moved.

        Raises:
            KeystoreError: the new key file cannot be made, or a stored key was tampered with.
        """
        async with self._database.write() if self._database.shared else nullcontext() as alone:
            if alone is not None:
                # Two at once would overwrite each other's key file.
                await lock_exclusive(alone, _ROTATION, may_idle=True)
            return await self._rotate(new)

    async def _rotate(self, new: KeySource) -> int:
        # A rotation that a tampered wallet left unfinished needs the KEK that this one would drop.
        await self._finish_rotation()
        version = self.keyring.version + 1
        staged = new
        if new.file is not None:
            # The new file replaces the old one only after its version is stored.
            staged = KeySource(file=keyring.next_file(new.file))
            keyring.next_file(new.file).unlink(missing_ok=True)
        ring, row = await keyring.create(staged, version, self.keyring)
        async with self._database.write() as connection:
            await lock_exclusive(connection, _VERSIONS)
            if (await store.keystore_rows(connection))[0]["kek_version"] != self.keyring.version:
                raise KeystoreError("Another process rotated the keystore meanwhile")
            await store.insert_keystore(connection, _fields(row))
        if new.file is not None:
            keyfile.replace_key(keyring.next_file(new.file), new.file)
        self.keyring = ring
        return await self._finish_rotation()

    async def _finish_rotation(self) -> int:
        old, new = self.keyring.previous, self.keyring.version
        if old is None:
            return 0
        moved, after = 0, ""
        while True:
            async with self._database.write() as connection:
                rows = await store.wallets_under(connection, old, after, _BATCH)
                if not rows and after:
                    # Wallets may have been added under the old version, before this position.
                    rows = await store.wallets_under(connection, old, "", _BATCH)
                if not rows:
                    kdf = (await store.keystore_rows(connection))[0]["kdf"]
                    await store.leave_version(connection, old, new, keyring.finished(kdf))
                    break
                await store.rewrap(connection, old, new, [self._rewrapped(row) for row in rows])
            moved, after = moved + len(rows), rows[-1]["id"]
        # The old KEK stays in memory for envelopes that were read before.
        return moved

    def _rewrapped(self, row: Mapping[str, Any]) -> tuple[str, bytes]:
        envelope = envelope_of(row)
        old = self.keyring.kek(envelope.kek_version)
        moved = rewrap(old, self.keyring.current, self.keyring.version, envelope)
        return moved.wallet_id, moved.wrapped_data_key


def envelope_of(row: Mapping[str, Any]) -> Envelope:
    """A wallet row's sealed key."""
    return Envelope(
        wallet_id=row["id"],
        public_key=row["public_key"],
        kek_version=int(row["kek_version"]),
        wrapped_data_key=bytes(row["wrapped_data_key"]),
        sealed_key=bytes(row["sealed_key"]),
    )


def keystore_row(fields: Mapping[str, Any]) -> KeystoreRow:
    """A KEK version from its row; raises `KeystoreError` where it is damaged."""
    if not isinstance(fields["kdf"], dict):
        raise KeystoreError("The keystore's parameters are damaged")
    return KeystoreRow(int(fields["kek_version"]), fields["kdf"], bytes(fields["verifier"]))


def _fields(row: KeystoreRow) -> dict[str, Any]:
    return {
        "kek_version": row.kek_version,
        "kdf": dict(row.kdf),
        "verifier": row.verifier,
        "created_ms": now_ms(),
    }
