"""Derives the key-encryption key (KEK) from a passphrase, or reads it from a file of 32 bytes that
only its owner may read, and verifies it.

The store has one row for each KEK version, with its derivation parameters and a verifier. During a
rotation there are two rows, and the newer row contains the older KEK, wrapped under the newer KEK.
So the new secret is enough to finish the rotation.

The row also contains the audit key, sealed under the KEK. It survives rotations, as wallets' data
keys do. The verifier covers it, so nobody can remove or exchange it without the secret.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solward.database.outbox import AUDIT_KEY_BYTES
from solward.support import jsontext
from solward.support.atomic_files import sync_folder, whole_file
from solward.types.errors import KeystoreError
from solward.vault.custody.envelope import KEY_BYTES, Keyring, decrypt, derive_key, encrypt, new_kdf

_KNOWN = b"solward keystore"
_PREVIOUS = "previous"
_AUDIT = "audit"

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class KeySource:
    """The source of the KEK: a passphrase, or a key file, which the first start creates."""

    passphrase: str | None = field(default=None, repr=False)
    file: Path | None = None

    def __post_init__(self) -> None:
        if self.passphrase is not None and not self.passphrase.strip():
            raise KeystoreError("KEYSTORE_PASSPHRASE must not be blank")
        if (self.passphrase is None) == (self.file is None):
            raise KeystoreError("A keystore has either a passphrase or a key file")


@dataclass(frozen=True, slots=True)
class KeystoreRow:
    """A KEK version as stored: derivation parameters, and a verifier of the derived key."""

    kek_version: int
    kdf: Mapping[str, Any]
    verifier: bytes = field(repr=False)


async def create(
    source: KeySource, version: int = 1, previous: Keyring | None = None
) -> tuple[Keyring, KeystoreRow]:
    """Return a new KEK version and its row; create the key file if it is missing.

    Raises:
        KeystoreError: the file cannot be created, or others can read it.
    """
    keks = {}
    if source.passphrase is not None:
        kdf = new_kdf()
        kek = await _derive_kek(source.passphrase, kdf)
    else:
        assert source.file is not None
        kdf = {"kind": "file"}
        exists = source.file.exists()
        kek = read_key(source.file) if exists else create_key(source.file)
    keks[version] = kek
    audit_key = os.urandom(AUDIT_KEY_BYTES) if previous is None else previous.audit_key
    sealed = encrypt(kek, audit_key, _audit_aad(version))
    kdf[_AUDIT] = base64.b64encode(sealed).decode()
    verifier = encrypt(kek, _KNOWN, _aad(version, kdf))
    if previous is not None:
        keks[previous.version] = previous.current
        wrapped = encrypt(kek, previous.current, _previous_aad(version, previous.version))
        kdf[_PREVIOUS] = {
            "version": previous.version,
            "key": base64.b64encode(wrapped).decode(),
        }
    return Keyring(version, keks, audit_key), KeystoreRow(version, kdf, verifier)


async def unlock(source: KeySource, row: KeystoreRow) -> Keyring:
    """Return the keyring of the newest row.

    Raises:
        KeystoreError: the passphrase or file is missing, of the wrong kind or not the right one,
            or the stored parameters are out of bounds.
    """
    kek = await _obtain_kek(source, row)
    keks = {row.kek_version: kek}
    previous = row.kdf.get(_PREVIOUS)
    if previous is not None:
        try:
            old, wrapped = int(previous["version"]), _base64(previous["key"])
        except (KeyError, TypeError, ValueError):
            raise KeystoreError("The keystore's parameters are damaged") from None
        bound = _previous_aad(row.kek_version, old)
        keks[old] = decrypt(kek, wrapped, bound, "The previous keystore key")
    if _AUDIT not in row.kdf:
        raise KeystoreError("The keystore's parameters are damaged")
    sealed = _base64(row.kdf[_AUDIT])
    audit_key = decrypt(kek, sealed, _audit_aad(row.kek_version), "The audit key")
    return Keyring(row.kek_version, keks, audit_key)


def finished_kdf(row_kdf: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's `kdf` after the rotation, without the previous KEK."""
    return {name: value for name, value in row_kdf.items() if name != _PREVIOUS}


def next_file(path: Path) -> Path:
    """Return the path at which a rotation writes the new key file until its version is stored."""
    return path.with_name(f"{path.name}.next")


async def _obtain_kek(source: KeySource, row: KeystoreRow) -> bytes:
    kind = row.kdf.get("kind")
    if kind == "argon2id":
        if source.passphrase is None:
            raise KeystoreError("This keystore has a passphrase: set KEYSTORE_PASSPHRASE")
        kek = await _derive_kek(source.passphrase, row.kdf)
        if not _is_verified(kek, row):
            raise KeystoreError("KEYSTORE_PASSPHRASE is not this keystore's passphrase")
        return kek
    if kind != "file":
        raise KeystoreError(f"This version of Solward does not know the keystore's kind: {kind}")
    if source.file is None:
        raise KeystoreError(
            "This keystore has a key file: unset KEYSTORE_PASSPHRASE. To use a passphrase instead,"
            " then run `solward keystore rotate --to passphrase`"
        )
    # Another process that starts after an interrupted rotation may move the new file into place
    # between our two reads; a second read then finds it.
    for _ in range(2):
        found = _read_matching(source.file, row)
        if found is not None:
            return found
    raise KeystoreError(f"The key file {source.file} is not this keystore's key")


def _read_matching(path: Path, row: KeystoreRow) -> bytes | None:
    following = next_file(path)
    if path.exists() or not following.exists():
        kek = read_key(path)
        if _is_verified(kek, row):
            return kek
    if not following.exists():
        return None
    # A rotation may have been killed after storing the new version, before moving its file.
    try:
        kek = read_key(following)
        if _is_verified(kek, row):
            replace_key(following, path)
            return kek
    except (KeystoreError, FileNotFoundError):
        if following.exists():
            raise
    return None


async def _derive_kek(passphrase: str, kdf: Mapping[str, Any]) -> bytes:
    try:
        return await asyncio.to_thread(derive_key, passphrase, kdf)
    except binascii.Error:
        raise KeystoreError("The keystore's parameters are damaged") from None
    except ValueError as error:
        raise KeystoreError(f"The keystore's {error}") from None


def _is_verified(kek: bytes, row: KeystoreRow) -> bool:
    try:
        bound = _aad(row.kek_version, finished_kdf(row.kdf))
        return decrypt(kek, row.verifier, bound, "The keystore") == _KNOWN
    except KeystoreError:
        return False


def _base64(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error:
        raise KeystoreError("The keystore's parameters are damaged") from None


def _aad(version: int, kdf: Mapping[str, Any]) -> bytes:
    return f"solward-keystore/1|{version}|{jsontext.dumps(dict(kdf), canonical=True)}".encode()


def _audit_aad(version: int) -> bytes:
    return f"solward-keystore/1|audit|{version}".encode()


def _previous_aad(version: int, previous: int) -> bytes:
    return f"solward-keystore/1|previous|{version}|{previous}".encode()


def read_key(path: Path) -> bytes:
    """Return the key in the file `path`, which may be a descriptor's path such as /dev/fd/3.

    Raises:
        KeystoreError: the file is missing, readable by others, or not 32 bytes long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise KeystoreError(
            f"The keystore's key file {path} is missing; restore it from a backup: without it "
            "no wallet can be opened"
        ) from None
    except OSError as error:
        raise KeystoreError(f"The key file {path} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_mode & _OTHERS:
            raise KeystoreError(
                f"The key file {path} is open to other users (mode "
                f"{stat.S_IMODE(status.st_mode):04o}); run: chmod 600 {path}"
            )
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise KeystoreError(f"The key file {path} must hold exactly {KEY_BYTES} bytes")
    return key


def create_key(path: Path) -> bytes:
    """Write a new random key to `path`, durably, and never over an existing file.

    Raises:
        KeystoreError: the file exists already or cannot be written.
    """
    key = os.urandom(KEY_BYTES)
    try:
        # An existing key must stay, because it opens wallets.
        with whole_file(path, replace=False) as file:
            file.write(key)
    except FileExistsError:
        raise KeystoreError(f"The key file {path} exists already") from None
    except OSError as error:
        raise KeystoreError(f"The key file {path} cannot be written: {error.strerror}") from None
    return key


def replace_key(new: Path, path: Path) -> None:
    """Move the key file `new` over `path`, durably."""
    new.replace(path)
    sync_folder(path.parent)
