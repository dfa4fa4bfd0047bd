"""Unpacking of wheels into one folder by Solward itself, which runs none of their code.

A wheel is a third party's archive. pip would put its `.pth` files where every interpreter runs
them, its scripts next to Solward's, and its modules over those of others; Solward does none of it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

from solward.plugins.folders.layout import Wheel, canonical
from solward.types.errors import FolderError

_FILE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._]{0,98}[A-Za-z0-9])?)-(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_]{0,63})"
    r"(?:-[0-9][A-Za-z0-9_.]*)?-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+\.whl"
)
# The end of an archive without a comment: PK 5 6, then the directory's size at 12.
_END = struct.Struct("<4s8xII2x")
_LOCATOR_64 = b"PK\x06\x07"
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_MAX_PATH, _MAX_PART = 1_000, 240
_MAX_METADATA = 8 << 20
_BLOCK = 1 << 20
_UNRECORDED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_HASHES = ("sha256", "sha384", "sha512")
# Modules that an interpreter imports when it starts, from any folder of its path.
_STARTED = re.compile(r"(?:sitecustomize|usercustomize)(?:\..*)?")


@dataclass(slots=True)
class Budget:
    """The remaining size limits for a distribution's wheels.

    Attributes:
        archive_bytes: limit of one wheel's file.
        directory_bytes: limit of one wheel's list of files, which is read as a whole.
    """

    files: int = 50_000
    unpacked_bytes: int = 1 << 30
    archive_bytes: int = 512 << 20
    directory_bytes: int = 16 << 20


class WheelName(NamedTuple):
    """The name and version in a wheel's file name."""

    name: str
    version: str


@dataclass(slots=True)
class Tree:
    """A folder into which wheels are unpacked.

    Attributes:
        left_out: files that were not unpacked, because an interpreter would run them.
    """

    root: Path
    budget: Budget = field(default_factory=Budget)
    left_out: list[str] = field(default_factory=list)
    _files: dict[str, str] = field(default_factory=dict)
    _folders: set[str] = field(default_factory=set)

    def unpack(self, path: Path) -> Wheel:
        """Unpack a wheel.

        Raises:
            FolderError: if it is not a wheel, misstates its contents, or holds forbidden files. The
                caller removes what was written until then.
        """
        named = parse_wheel_name(path.name)
        try:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                _check_archive_end(file, path.name, self.budget)
                with zipfile.ZipFile(file) as archive:
                    self._unpack_archive(archive, path.name, named)
        except (
            zipfile.BadZipFile, zlib.error, csv.Error, EOFError, NotImplementedError, RuntimeError,
            ValueError, struct.error,
        ) as error:  # fmt: skip
            raise FolderError(f"{path.name} is not a readable wheel: {error}") from None
        return Wheel(path.name, canonical(named.name), named.version, sha256)

    def _unpack_archive(self, archive: zipfile.ZipFile, wheel: str, named: WheelName) -> None:
        infos = list(_checked_entries(archive, wheel))
        self.budget.files -= len(infos)
        self.budget.unpacked_bytes -= sum(info.file_size for info in infos)
        if self.budget.files < 0 or self.budget.unpacked_bytes < 0:
            raise FolderError(f"{wheel} is too large once unpacked")
        info_folder, data = _metadata_folders(archive, infos, wheel, named)
        record = _read_record(archive, info_folder, wheel)
        for info in infos:
            digest = self._unpack_file(archive, info, wheel, data)
            name = info.filename
            if name.removeprefix(f"{info_folder}/") in _UNRECORDED:
                record.pop(name, None)
            elif name not in record:
                raise FolderError(f"{wheel}: its RECORD does not name {name!r}")
            else:
                algorithm, _, expected = record.pop(name).partition("=")
                if algorithm not in _HASHES or digest[algorithm] != expected:
                    raise FolderError(f"{wheel}: {name!r} does not match its RECORD")
        if record:
            raise FolderError(f"{wheel}: its RECORD names {min(record)!r}, which the wheel lacks")

    def _unpack_file(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, wheel: str, data: str
    ) -> dict[str, str]:
        """Write one file or leave it out, and return the hashes of its content."""
        path = _destination(info.filename, data)
        if path is not None and runs_by_itself(path):
            self.left_out.append(info.filename)
            path = None
        hashes = {name: hashlib.new(name) for name in _HASHES}
        with archive.open(info) as source, _open_target(self._new_path(path, wheel)) as sink:
            # zipfile reads no more than the size that was counted against the budget.
            while block := source.read(_BLOCK):
                for each in hashes.values():
                    each.update(block)
                sink.write(block)
        if path is not None:
            before = self._files.setdefault(path, hashes["sha256"].hexdigest())
            if before != hashes["sha256"].hexdigest():
                raise FolderError(f"{wheel}: another wheel has a different {path!r}")
        return {
            name: base64.urlsafe_b64encode(each.digest()).rstrip(b"=").decode()
            for name, each in hashes.items()
        }

    def _new_path(self, path: str | None, wheel: str) -> Path | None:
        if path is None or path in self._files:
            return None
        parents = [path[:end] for end, mark in enumerate(path) if mark == "/"]
        if path in self._folders or any(parent in self._files for parent in parents):
            raise FolderError(f"{wheel}: {path!r} is both a file and a folder")
        self._folders.update(parents)
        target = self.root / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return target

    def modules(self) -> list[str]:
        """Return the names of the top-level modules and packages."""
        names = set()
        for path in self._files:
            first, slash, _ = path.partition("/")
            if slash and not first.endswith(".dist-info"):
                names.add(first)
            elif not slash and first.endswith((".py", ".so")):
                names.add(first.partition(".")[0])
        return sorted(names)


def parse_wheel_name(name: str) -> WheelName:
    """Return the name and version in a wheel's file name.

    Raises:
        FolderError: if it is not the name of a wheel.
    """
    found = _FILE.fullmatch(name)
    if found is None:
        raise FolderError(
            f"{name!r} is no wheel: expected NAME-VERSION-PYTHON-ABI-PLATFORM.whl. Building a"
            " source distribution would run its code"
        )
    return WheelName(found["name"], found["version"])


def check_modules(tree: Tree, distribution: str) -> None:
    """Refuse modules with a name that the service has: a host would import the service's module
    instead of the one in the folder.

    Raises:
        FolderError: naming the module.
    """
    for name in tree.modules():
        if not name.isidentifier():
            continue
        found = None if name in sys.stdlib_module_names else find_spec(name)
        # A namespace package has no origin, and several distributions may share it.
        if name in sys.stdlib_module_names or (found is not None and found.origin is not None):
            raise FolderError(
                f"{distribution} has a module {name!r} that the service has too: the service's own"
                " module would be imported"
            )


def _check_archive_end(file: IO[bytes], wheel: str, budget: Budget) -> None:
    """Refuse archives whose list of files is enormous, or not at the end as programs expect."""
    size = file.seek(0, os.SEEK_END)
    if size > budget.archive_bytes:
        raise FolderError(f"{wheel} is larger than {budget.archive_bytes} bytes")
    file.seek(max(size - 42, 0))
    tail = file.read()
    if len(tail) < 22:
        raise FolderError(f"{wheel} is no archive")
    mark, directory, start = _END.unpack(tail[-22:])
    if mark != b"PK\x05\x06" or tail.startswith(_LOCATOR_64) or directory + start != size - 22:
        raise FolderError(f"{wheel} is no plain archive: its list of files must be at its end")
    if directory > budget.directory_bytes:
        raise FolderError(f"{wheel} has too many files")


def _checked_entries(archive: zipfile.ZipFile, wheel: str) -> Iterator[zipfile.ZipInfo]:
    """Yield the files of an archive; refuse it if one has no plain path below the folder."""
    seen: set[str] = set()
    for info in archive.infolist():
        name = info.filename
        # zipfile cuts a name off at a NUL, and other programs do not.
        plain = info.orig_filename == name and name.isprintable() and "\\" not in name
        parts = name.removesuffix("/").split("/")
        if (
            not plain
            or len(name) > _MAX_PATH
            or any(part in ("", ".", "..") or len(part.encode()) > _MAX_PART for part in parts)
            or ":" in parts[0]
        ):
            raise FolderError(f"{wheel}: {name[:200]!r} is not a path below its folder")
        if name.rstrip("/") in seen:
            raise FolderError(f"{wheel}: the wheel contains {name!r} twice")
        seen.add(name.rstrip("/"))
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG):
            raise FolderError(f"{wheel}: {name!r} is neither a file nor a folder")
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _PLAIN:
            raise FolderError(f"{wheel}: {name!r} is encrypted, or compressed by an unknown method")
        if not info.is_dir():
            yield info


def _metadata_folders(
    archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], wheel: str, named: WheelName
) -> tuple[str, str]:
    """Return the wheel's folders of metadata and data; both must match the file name."""
    tops = {info.filename.split("/")[0] for info in infos if "/" in info.filename}
    found = sorted(top for top in tops if top.endswith((".dist-info", ".data")))
    own = [top for top in found if top.endswith(".dist-info")]
    if len(own) != 1 or any(not _names_match(top.rpartition(".")[0], named) for top in found):
        raise FolderError(f"{wheel}: its only metadata must be for {named.name} {named.version}")
    header = BytesHeaderParser().parsebytes(_read_text(archive, f"{own[0]}/METADATA", wheel))
    if not _names_match(f"{header['Name']}-{header['Version']}", named):
        raise FolderError(
            f"{wheel}: its metadata names {str(header['Name'])[:100]!r}"
            f" {str(header['Version'])[:100]!r}"
        )
    version = BytesHeaderParser().parsebytes(_read_text(archive, f"{own[0]}/WHEEL", wheel))
    if not str(version["Wheel-Version"]).startswith("1."):
        raise FolderError(f"{wheel} has an unknown wheel format")
    return own[0], own[0].removesuffix(".dist-info") + ".data"


def _names_match(text: str, named: WheelName) -> bool:
    name, _, version = text.rpartition("-")
    # A file name has `_` where the version has `-`.
    spelled = version.replace("-", "_").lower()
    return canonical(name) == canonical(named.name) and spelled == named.version.lower()


def _read_record(archive: zipfile.ZipFile, folder: str, wheel: str) -> dict[str, str]:
    """Return the `algorithm=hash` of each path, from the wheel's RECORD."""
    text = _read_text(archive, f"{folder}/RECORD", wheel).decode()
    found: dict[str, str] = {}
    for row in csv.reader(io.StringIO(text), strict=True):
        if not row:
            continue
        if len(row) != 3 or row[0] in found:
            raise FolderError(
                f"{wheel}: its RECORD has {str(row[0])[:100]!r} twice or without a hash"
            )
        found[row[0]] = row[1]
    return found


def _read_text(archive: zipfile.ZipFile, name: str, wheel: str) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise FolderError(f"{wheel} has no {name}") from None
    if info.file_size > _MAX_METADATA:
        raise FolderError(f"{wheel}: {name} is too large")
    with archive.open(info) as file:
        return file.read(_MAX_METADATA)


def _destination(name: str, data: str) -> str | None:
    """Return a file's path below the folder; None for scripts and other files to leave out."""
    if "/__pycache__/" in f"/{name}":
        return None
    if not name.startswith(f"{data}/"):
        return name
    _, kind, *rest = name.split("/", 2)
    return rest[0] if rest and kind in ("purelib", "platlib") else None


def runs_by_itself(path: str) -> bool:
    """Return whether an interpreter with the folder on its path runs this file when it starts."""
    first, slash, _ = path.partition("/")
    if not slash and first.endswith(".pth"):
        return True
    return _STARTED.fullmatch(first) is not None


def _open_target(target: Path | None) -> IO[bytes]:
    if target is None:
        return open(os.devnull, "wb")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(target, flags, 0o600), "wb")
