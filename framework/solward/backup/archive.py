"""The backup's file: a tar of the manifest and the copied files, compressed, then encrypted."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import IO, Final, cast

from solward.backup.manifest import MANIFEST, Manifest, parse_manifest
from solward.backup.plugins import make_folder
from solward.backup.sealed import SealedReader, SealedWriter
from solward.types.errors import BackupError
from solward.vault.custody.keyfile import sync_folder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_MAX_MANIFEST: Final = 64 << 20


def refuse_existing(file: Path) -> None:
    """Raise `BackupError` if the file exists."""
    if file.exists():
        raise BackupError(f"{file} exists already; choose another name")


def write_archive(file: Path, folder: Path, manifest: Manifest, passphrase: str) -> None:
    """Write `manifest` and its files, found in `folder`, to `file`: mode 0600, all or nothing.

    Raises:
        BackupError: `file` exists already, or cannot be written.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as sink:
                _write(SealedWriter(sink, passphrase), folder, manifest)
                sink.flush()
                os.fsync(sink.fileno())
            # Link instead of rename, which would replace an older backup, maybe the only good one.
            os.link(temporary, file)
        finally:
            temporary.unlink()
        sync_folder(file.parent)
    except FileExistsError:
        refuse_existing(file)
        raise BackupError(f"{temporary} is in the way; remove it") from None
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}") from None


def read_archive(file: Path, folder: Path, passphrase: str) -> Manifest:
    """Extract the files of a backup into `folder`, mode 0600; returns its manifest.

    Raises:
        BackupError: it is no backup, of another passphrase, of a newer version, or damaged.
    """
    try:
        with file.open("rb") as source:
            return _read(SealedReader(source, passphrase), folder)
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}") from None
    except (tarfile.TarError, zstd.ZstdError, EOFError):
        raise BackupError("The backup is damaged or cut short") from None


def _write(sealed: SealedWriter, folder: Path, manifest: Manifest) -> None:
    text = manifest.to_json()
    if len(text) > _MAX_MANIFEST:
        raise BackupError("The plugins have more files than a backup can list; remove some first")
    with (
        zstd.ZstdFile(cast(IO[bytes], sealed), "w", level=3) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        _add(archive, MANIFEST, io.BytesIO(text), len(text))
        for name, size in manifest.files.items():
            with (folder / name).open("rb") as content:
                _add(archive, name, content, size)
    sealed.finish()


def _add(archive: tarfile.TarFile, name: str, content: io.BufferedIOBase, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    archive.addfile(entry, content)


def _read(sealed: SealedReader, folder: Path) -> Manifest:
    with (
        zstd.ZstdFile(cast(IO[bytes], sealed)) as packed,
        tarfile.open(fileobj=packed, mode="r|") as archive,
    ):
        first = archive.next()
        if first is None or first.name != MANIFEST or first.size > _MAX_MANIFEST:
            raise BackupError("The backup has no manifest")
        manifest = parse_manifest(_content(archive, first).read())
        # Only names from the manifest, so that no entry can choose its path.
        for name, size in manifest.files.items():
            entry = archive.next()
            if entry is None or (entry.name, entry.size) != (name, size):
                raise BackupError("The backup does not hold what its manifest lists")
            _store(folder / name, _content(archive, entry))
        # Only the end of the encrypted stream proves that nothing was cut off.
        while packed.read(1 << 20):
            pass
    return manifest


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> io.BufferedIOBase:
    content = archive.extractfile(entry)
    if content is None:
        raise BackupError("The backup does not hold what its manifest lists")
    return content  # type: ignore[return-value] # typeshed: IO[bytes], which it is


def _store(path: Path, content: io.BufferedIOBase) -> None:
    make_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
        file.flush()
        os.fsync(descriptor)
