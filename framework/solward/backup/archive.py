"""The format of a backup file: its encryption, its manifest, and the copies of a home's plugins.

The file is a compressed tar of the manifest and the copied files. It is encrypted with a
passphrase: Argon2id derives the key, AES-256-GCM encrypts chunks of 1 MiB.

Layout: the magic, the length of the header (4 bytes, big-endian), the header (JSON: format, key
derivation, verifier), then the chunks. A chunk's nonce is 7 random bytes of the file, its number
and whether it is the last (STREAM: Hoang, Reyhanitabar, Rogaway, Vizar, "Online
Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance", 2015), and the header is
authenticated with it: a chunk cannot be changed, moved, repeated or cut off.

The backup has the plugins that are installed in folders of their own, and plugins' data. A restored
home loads only accepted plugins: a folder that differs from the record of its installation is left
out. Data is copied file by file while plugins continue to write, so the copies of different files
may be from different moments.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final, cast

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from solward.plugins.folders import layout, storage
from solward.support import jsontext
from solward.support.atomic_files import whole_file
from solward.types.bounds import Natural
from solward.types.errors import BackupError, KeystoreError
from solward.vault.custody.envelope import decrypt, derive_key, encrypt, new_kdf

FORMAT: Final = 1
MAGIC: Final = b"solward-backup\n"
CHUNK: Final = 1 << 20

MANIFEST = "manifest.json"
DATABASE = "solward.db"
LEDGER = "localnet.db"
KEY_FILE = "keystore.key"
# The new key of an interrupted rotation (`vault.custody.keyring.next_file`).
NEXT_KEY_FILE = "keystore.key.next"
FILES = (DATABASE, KEY_FILE, NEXT_KEY_FILE, LEDGER)
FOLDERS = (layout.FOLDER, storage.FOLDER)
# The home to which a backup is restored may have a longer path; the system's limit is 4,096.
_MAX_PATH: Final = 1_200
# The maximum number of files of a distribution. A host with more is ended, but a second later.
_MAX_KEPT: Final = 1_000
_MAX_NAMED: Final = 20

_PREFIX_BYTES: Final = 7
_TAG_BYTES: Final = 16
_MAX_HEADER: Final = 4096
_MAX_MANIFEST: Final = 64 << 20
_KNOWN: Final = b"solward backup"

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def refuse_existing(file: Path) -> None:
    """Raise `BackupError` if the file exists."""
    if file.exists():
        raise BackupError(f"{file} exists already; choose another name")


def write_archive(file: Path, folder: Path, manifest: Manifest, passphrase: str) -> None:
    """Write `manifest` and its files from `folder` to `file` (mode 0600), all or nothing.

    Raises:
        BackupError: `file` exists already, or cannot be written.
    """
    try:
        # An existing file is not replaced, because an older backup may be the only good one.
        with whole_file(file, replace=False) as sink:
            _write_files(SealedWriter(sink, passphrase), folder, manifest)
    except FileExistsError:
        raise BackupError(f"{file} exists already; choose another name") from None
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}") from None


def read_archive(file: Path, folder: Path, passphrase: str) -> Manifest:
    """Extract the files of a backup into `folder`, mode 0600; returns its manifest.

    Raises:
        BackupError: the file is no backup, is damaged, has another passphrase or a newer version.
    """
    try:
        with file.open("rb") as source:
            return _read_files(SealedReader(source, passphrase), folder)
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}") from None
    except (tarfile.TarError, zstd.ZstdError, EOFError):
        raise BackupError("The backup is damaged or cut short") from None


def _write_files(sealed: SealedWriter, folder: Path, manifest: Manifest) -> None:
    text = manifest.to_json()
    if len(text) > _MAX_MANIFEST:
        raise BackupError("The plugins have more files than a backup can list; remove some first")
    with (
        zstd.ZstdFile(cast(IO[bytes], sealed), "w", level=3) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        _add_file(archive, MANIFEST, io.BytesIO(text), len(text))
        for name, size in manifest.files.items():
            with (folder / name).open("rb") as content:
                _add_file(archive, name, content, size)
    sealed.finish()


def _add_file(archive: tarfile.TarFile, name: str, content: io.BufferedIOBase, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    archive.addfile(entry, content)


def _read_files(sealed: SealedReader, folder: Path) -> Manifest:
    with (
        zstd.ZstdFile(cast(IO[bytes], sealed)) as packed,
        tarfile.open(fileobj=packed, mode="r|") as archive,
    ):
        first = archive.next()
        if first is None or first.name != MANIFEST or first.size > _MAX_MANIFEST:
            raise BackupError("The backup has no manifest")
        manifest = parse_manifest(_file_content(archive, first).read())
        # Only names from the manifest are used, so that no entry of the tar can choose its path.
        for name, size in manifest.files.items():
            entry = archive.next()
            if entry is None or (entry.name, entry.size) != (name, size):
                raise BackupError("The backup's files are not those that its manifest lists")
            _store_file(folder / name, _file_content(archive, entry))
        # Only the end of the encrypted stream proves that nothing was cut off.
        while packed.read(1 << 20):
            pass
    return manifest


def _file_content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> io.BufferedIOBase:
    content = archive.extractfile(entry)
    if content is None:
        raise BackupError("The backup's files are not those that its manifest lists")
    return content  # type: ignore[return-value] # typeshed: IO[bytes], which it is


def _store_file(path: Path, content: io.BufferedIOBase) -> None:
    make_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
        file.flush()
        os.fsync(descriptor)


class SealedWriter:
    """Encrypts data to a file, `sink`, which is complete only after `finish`."""

    def __init__(self, sink: IO[bytes], passphrase: str) -> None:
        kdf = new_kdf()
        key = _derive_key(passphrase, kdf)
        prefix = os.urandom(_PREFIX_BYTES)
        verifier = encrypt(key, _KNOWN, _authenticated_data(kdf))
        self._header = msgspec.json.encode(_Header(FORMAT, kdf, prefix, verifier))
        self._sink, self._chunks = sink, _Chunks(key, prefix, self._header)
        self._waiting = bytearray()
        sink.write(MAGIC + len(self._header).to_bytes(4, "big") + self._header)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write all of `data`."""
        view = memoryview(data)
        self._waiting += view
        # One chunk is always buffered, because the last chunk is marked.
        while len(self._waiting) > CHUNK:
            self._sink.write(self._chunks.seal(bytes(self._waiting[:CHUNK]), last=False))
            del self._waiting[:CHUNK]
        return view.nbytes

    def finish(self) -> None:
        """Encrypt the last chunk."""
        self._sink.write(self._chunks.seal(bytes(self._waiting), last=True))


class SealedReader:
    """Decrypts `source`, which a `SealedWriter` wrote.

    Raises:
        BackupError: the source is not a backup, is damaged, or has a newer version or another
            passphrase. Reading raises it too; only the end proves that nothing is missing.
    """

    def __init__(self, source: IO[bytes], passphrase: str) -> None:
        header, fields = _read_header(source)
        key = _derive_key(passphrase, fields.kdf)
        try:
            decrypt(key, fields.verifier, _authenticated_data(fields.kdf), "The backup")
        except KeystoreError:
            raise BackupError(
                "The passphrase is not that of this backup, or the file's beginning is damaged"
            ) from None
        self._source = source
        self._chunks = _Chunks(key, fields.nonce, header)
        self._ahead = source.read(CHUNK + _TAG_BYTES)
        self._plain = memoryview(b"")
        self._ended = False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, or no bytes at the authenticated end."""
        while not self._plain:
            if self._ended:
                return b""
            sealed, self._ahead = self._ahead, self._source.read(CHUNK + _TAG_BYTES)
            self._ended = not self._ahead
            self._plain = memoryview(self._chunks.open(sealed, last=self._ended))
        data, self._plain = self._plain[:size], self._plain[size:]
        return bytes(data)


class _Chunks:
    """Encrypts or decrypts chunks in their order."""

    def __init__(self, key: bytes, prefix: bytes, header: bytes) -> None:
        self._cipher, self._prefix, self._header = AESGCM(key), prefix, header
        self._number = 0

    def seal(self, plain: bytes, *, last: bool) -> bytes:
        return self._cipher.encrypt(self._next_nonce(last), plain, self._header)

    def open(self, sealed: bytes, *, last: bool) -> bytes:
        try:
            return self._cipher.decrypt(self._next_nonce(last), sealed, self._header)
        except (InvalidTag, ValueError):
            raise BackupError("The backup is damaged or cut short") from None

    def _next_nonce(self, last: bool) -> bytes:
        number, self._number = self._number, self._number + 1
        return self._prefix + number.to_bytes(4, "big") + bytes([last])


class _Header(msgspec.Struct):
    """The header of a backup's file; in its JSON, bytes are base64."""

    format: int
    kdf: dict[str, Any]
    nonce: Annotated[bytes, msgspec.Meta(min_length=_PREFIX_BYTES, max_length=_PREFIX_BYTES)]
    verifier: bytes


def _read_header(source: IO[bytes]) -> tuple[bytes, _Header]:
    if source.read(len(MAGIC)) != MAGIC:
        raise BackupError("The file is not a backup made by `solward backup`")
    size = int.from_bytes(source.read(4), "big")
    header = source.read(size) if size <= _MAX_HEADER else b""
    try:
        found = jsontext.read(header)
        # A newer version may have other fields, so only the version's number is read.
        version = found["format"]
        if type(version) is not int:
            raise TypeError
        if version > FORMAT:
            raise BackupError(
                f"The backup was made by a newer version of Solward (format {version}; this one"
                f" reads up to {FORMAT})"
            )
        return header, msgspec.convert(found, _Header)
    except (ValueError, TypeError, KeyError):
        raise BackupError("The beginning of the backup is damaged") from None


def _derive_key(passphrase: str, kdf: Any) -> bytes:
    try:
        return derive_key(passphrase, kdf)
    except ValueError:
        raise BackupError("The beginning of the backup is damaged") from None


def _authenticated_data(kdf: Any) -> bytes:
    return f"solward-backup/{FORMAT}|{jsontext.dumps(kdf, canonical=True)}".encode()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a backup.

    Attributes:
        version: the version of Solward that made it.
        created: ISO 8601, UTC.
        network: the network of its transactions.
        schema: the hash of the database's schema.
        keystore: `passphrase`, `file`, or `none` if there were no wallets yet.
        wallets: id -> base58 public key.
        files: name -> bytes; a plugin's file is named by its path in the home.
    """

    version: str
    created: str
    network: str
    schema: str
    keystore: str
    wallets: Mapping[str, str]
    files: Mapping[str, Natural]

    @property
    def content_names(self) -> list[str]:
        """The names of the backup's files, for people; of plugins only the folders' names."""
        folders = [name.rsplit("/")[:2] for name in self.files if name not in FILES]
        return [
            *(name for name in self.files if name in FILES),
            *dict.fromkeys("/".join(each) for each in folders),
        ]

    def to_json(self) -> bytes:
        """Return the contents of the manifest's file."""
        return jsontext.dumps(asdict(self)).encode()


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in `data`; raises `BackupError`."""
    try:
        manifest = msgspec.convert(jsontext.read(data), Manifest)
    except ValueError:
        manifest = None
    if manifest is None or DATABASE not in manifest.files or not all(map(_is_file, manifest.files)):
        raise BackupError("This version cannot read the backup's manifest")
    return manifest


def _is_file(name: str) -> bool:
    return name in FILES or is_plugin_path(name)


def is_plugin_path(name: str) -> bool:
    """Return whether a name is valid for a plugin distribution's file in a backup."""
    first, *rest = name.split("/")
    return (
        first in FOLDERS
        and len(rest) >= 2
        and layout.is_name(rest[0])
        and all(part not in ("", ".", "..") and "\0" not in part for part in rest)
    )


def make_folder(folder: Path) -> None:
    """Make a folder and its parents if they are missing, accessible only for their owner."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700)


def copy_plugins(home: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Copy plugins' records, unpacked wheels and data from a home into `folder`.

    Returns:
        The names of the copies, and a sentence for each omitted file or folder.
    """
    left_out: list[str] = []
    # Marked as in use, so that an upgrade meanwhile does not delete a folder before it is copied.
    with layout.keep_folders(home):
        installed, unreadable = layout.installed(home)
        left_out += unreadable.values()
        for one in installed:
            own = layout.plugins_folder(folder) / one.name
            make_folder(own)
            _copy_files(one.folder, own / one.folder.name, left_out)
            layout.write(folder, one)
    for name in storage.stored_distributions(home):
        own = folder / storage.FOLDER / name
        _copy_files(home / storage.FOLDER / name, own, left_out, _MAX_KEPT)
    copied = [f"{top}/{path}" for top in FOLDERS for path, _ in storage.stored_files(folder / top)]
    return copied, left_out


def refused_plugins(folder: Path) -> dict[str, str]:
    """Return the distributions in `folder` that must not be loaded, each with the reason."""
    installed, unreadable = layout.installed(folder)
    found = dict(unreadable)
    for one in installed:
        try:
            same = layout.tree_digest(one.folder) == one.digest
        except (OSError, ValueError):
            same = False
        if not same:
            found[one.name] = (
                f"{one.name} {one.version}: its files are not those that were accepted;"
                " install it again"
            )
    return found


def _copy_files(
    source: Path, target: Path, left_out: list[str], max_files: int | None = None
) -> None:
    """Copy the files below a folder, at most `max_files` if it is given."""
    copied = unnamed = 0
    for path, file in storage.stored_files(source):
        if "__pycache__" in path.split("/"):
            continue  # Python makes it again
        try:
            path.encode()
            if copied == max_files:
                raise ValueError(f"the folder has more than {max_files:,} files")
            if len(os.fsencode(path)) > _MAX_PATH:
                raise ValueError("its path is too long")
            _copy_file(file, target / path)
            copied += 1
        except FileNotFoundError:
            continue  # the plugin removed it meanwhile
        except (OSError, ValueError) as error:
            if len(left_out) >= _MAX_NAMED:
                unnamed += 1
                continue
            why = error.strerror if isinstance(error, OSError) else str(error)
            why = "its name is not UTF-8" if isinstance(error, UnicodeError) else why
            left_out.append(f"{os.fsencode(file)[:_MAX_PATH]!r}: {why}")
    if unnamed:
        left_out.append(f"{unnamed:,} more omitted files of {source.name}")


def _copy_file(source: Path, target: Path) -> None:
    make_folder(target.parent)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(source, flags), "rb") as content:
        if not stat.S_ISREG(os.fstat(content.fileno()).st_mode):
            raise OSError(None, "it is not a plain file")
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(made, "wb") as copy:
            shutil.copyfileobj(content, copy, 1 << 20)
