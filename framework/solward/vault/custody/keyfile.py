"""The key-encryption key's file: 32 bytes only its owner may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from solward.types.errors import KeystoreError
from solward.vault.custody.envelope import KEY_BYTES

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_key(path: Path) -> bytes:
    """The key in `path`, which may also be a descriptor's path such as /dev/fd/3.

    Raises:
        KeystoreError: it is missing, readable by others, or not 32 bytes.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise KeystoreError(
            f"The keystore's key file {path} is missing; put it back from its backup: without it "
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
    """Write a new random key to `path`, durably, and never over another one.

    Raises:
        KeystoreError: it exists already or cannot be written.
    """
    key = os.urandom(KEY_BYTES)
    # Random: processes of machines that share the folder may have the same process id.
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(descriptor)
        try:
            # link() fails where rename() would replace an existing key, which opens wallets.
            os.link(temporary, path)
        finally:
            temporary.unlink()
        sync_folder(path.parent)
    except FileExistsError:
        raise KeystoreError(f"The key file {path} exists already") from None
    except OSError as error:
        raise KeystoreError(f"The key file {path} cannot be written: {error.strerror}") from None
    return key


def replace_key(new: Path, path: Path) -> None:
    """Move the key file `new` over `path`, durably."""
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
