"""The keystore in the database: unlocked at start, rotated in batches that survive a kill."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.audit.log import heads as audit_heads
from solward.database.database import Database, lock_exclusive, lock_shared
from solward.support.clock import now_ms
from solward.types.errors import AuditBroken, KeystoreError
from solward.types.events import EventKind
from solward.vault.custody import keyring
from solward.vault.custody.envelope import Envelope, Keyring, rewrap
from solward.vault.custody.keyring import KeySource, KeystoreRow
from solward.vault.store import wallets as store

_BATCH = 500

# Lock on a shared database: held shared while a key is sealed under the newest version, and
# exclusively while a version is created.
_VERSIONS = "keystore"
# Lock that a rotation holds from its beginning to its end.
_ROTATION = "keystore-rotation"

_log = structlog.get_logger(__name__)


class Keystore:
    """An unlocked keystore, with its keys in `keyring`."""

    def __init__(self, database: Database, ring: Keyring) -> None:
        self._database = database
        self.keyring = ring

    @classmethod
    async def open(cls, database: Database, source: KeySource) -> Keystore:
        """Unlock the keystore, or create it in an empty store; finish an interrupted rotation.

        A wallet that was tampered with leaves the rotation unfinished; the other wallets work.

        Raises:
            KeystoreError: the secret is not this keystore's, is missing, or is open to others.
        """
        async with database.read() as connection:
            rows = await store.keystore_rows(connection)
        if not rows:
            async with database.write() as connection:
                # The lock lets only one of several starting processes create the keystore.
                await lock_exclusive(connection, _VERSIONS)
                rows = await store.keystore_rows(connection)
                if not rows:
                    ring, row = await keyring.create(source)
                    await store.insert_keystore(connection, _keystore_fields(row))
                    database.audit_key = ring.audit_key
                    return cls(database, ring)
        ring = await keyring.unlock(source, keystore_row(rows[0]))
        database.audit_key = ring.audit_key
        opened = cls(database, ring)
        try:
            await opened._finish_rotation()
        except KeystoreError as error:
            _log.error("keystore_rotation_unfinished", error=str(error))
        return opened

    async def newest_keyring(self, connection: AsyncConnection) -> Keyring:
        """Return the keyring, which stays the newest until the database transaction ends.

        Raises:
            KeystoreError: another process rotated the keystore, so a key sealed under the old
                version could never be opened.
        """
        if self._database.shared:
            await lock_shared(connection, _VERSIONS)
            rows = await store.keystore_rows(connection)
            if rows[0]["kek_version"] != self.keyring.version:
                raise KeystoreError(
                    "The keystore was rotated since this process started; restart the process with"
                    " the new secret"
                )
        return self.keyring

    async def rotate(self, new: KeySource) -> int:
        """Begin a new KEK version and move every wallet to it; return how many wallets moved.

        Raises:
            KeystoreError: the new key file cannot be made, or a stored key was tampered with.
        """
        async with self._database.write() if self._database.shared else nullcontext() as alone:
            if alone is not None:
                # Two rotations at once would overwrite each other's key file.
                await lock_exclusive(alone, _ROTATION, may_idle=True)
            return await self._rotate_keys(new)

    async def _rotate_keys(self, new: KeySource) -> int:
        # A rotation that a tampered wallet stopped needs the KEK that this one would drop.
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
            old = keystore_row((await store.keystore_rows(connection))[0])
            if old.kek_version != self.keyring.version:
                raise KeystoreError("Another process rotated the keystore meanwhile")
            await store.insert_keystore(connection, _keystore_fields(row))
            was, now = _audit_fields(old), _audit_fields(row)
            record_act(connection, EventKind.KEYSTORE_ROTATED, {}, was, now)
        if new.file is not None:
            keyring.replace_key(keyring.next_file(new.file), new.file)
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
                    # Wallets may have been added meanwhile before this position, under the old
                    # version.
                    rows = await store.wallets_under(connection, old, "", _BATCH)
                if not rows:
                    kdf = (await store.keystore_rows(connection))[0]["kdf"]
                    await store.end_version(connection, old, new, keyring.finished_kdf(kdf))
                    break
                await store.rewrap(connection, old, new, [self._rewrap_wallet(row) for row in rows])
            moved, after = moved + len(rows), rows[-1]["id"]
        # The old KEK stays in memory, for envelopes that were read before.
        return moved

    def _rewrap_wallet(self, row: Mapping[str, Any]) -> tuple[str, bytes]:
        envelope = envelope_of(row)
        old = self.keyring.kek(envelope.kek_version)
        moved = rewrap(old, self.keyring.current, self.keyring.version, envelope)
        return moved.wallet_id, moved.wrapped_data_key


async def audit_key(database: Database, source: KeySource) -> bytes | None:
    """Return the key with which to check a database's audit log; change nothing.

    Returns:
        None if nothing was written yet.

    Raises:
        KeystoreError: the secret is not this keystore's, is missing, or is open to others.
        AuditBroken: there is a log, but no key for it.
    """
    async with database.read() as connection:
        rows = await store.keystore_rows(connection)
        begun = bool(await audit_heads(connection))
    if rows:
        return (await keyring.unlock(source, keystore_row(rows[0]))).audit_key
    if not begun:
        return None
    raise AuditBroken("The audit log is not authenticated any more: somebody removed its key")


def envelope_of(row: Mapping[str, Any]) -> Envelope:
    """Return a wallet row's sealed key."""
    return Envelope(
        wallet_id=row["id"],
        public_key=row["public_key"],
        kek_version=int(row["kek_version"]),
        wrapped_data_key=bytes(row["wrapped_data_key"]),
        sealed_key=bytes(row["sealed_key"]),
    )


def keystore_row(fields: Mapping[str, Any]) -> KeystoreRow:
    """Return a KEK version from its row; raises `KeystoreError` if it is damaged."""
    if not isinstance(fields["kdf"], dict):
        raise KeystoreError("The keystore's parameters are damaged")
    return KeystoreRow(int(fields["kek_version"]), fields["kdf"], bytes(fields["verifier"]))


def _audit_fields(row: KeystoreRow) -> dict[str, Any]:
    return {"version": row.kek_version, "kind": row.kdf.get("kind")}


def _keystore_fields(row: KeystoreRow) -> dict[str, Any]:
    return {
        "kek_version": row.kek_version,
        "kdf": dict(row.kdf),
        "verifier": row.verifier,
        "created_ms": now_ms(),
    }
