"""The folders of plugins in a service's home, and each folder's record.

    <home>/plugins/<name>/installed.json        the record; always renamed into place
    <home>/plugins/<name>/<version>-<digest>/   its unpacked wheels; complete once it has this name
    <home>/plugins/.removed/<name>              the command that removed it, which tells a removed
                                                folder from a lost one

A folder without a record is left over from a killed process, an upgrade or a removal. It is removed
when no service uses the home, because a running service may still import from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import DistributionFinder, MetadataPathFinder, PathDistribution
from pathlib import Path
from typing import Any

from solward.support import jsontext
from solward.support.atomic_files import sync_folder, write_file
from solward.types.errors import FolderError
from solward.types.manifest import Terms, read_terms, terms_json

FORMAT = 1
RECORD = "installed.json"
FOLDER = "plugins"
# Entries that are no distributions: no canonical name begins with a dot.
_STAGING, _TRASH, _LOCK, _USED, _REMOVED = ".staging-", ".trash-", ".lock", ".used", ".removed"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,120}")
_MAX_RECORD = 4 << 20


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A command that changed the installed distributions.

    Attributes:
        id: unique id, across all machines.
        ms: time of the command in Unix milliseconds, by the clock of its machine.
    """

    id: str
    ms: int

    @classmethod
    def new(cls, after_ms: int = 0) -> PluginCommand:
        """Return a command of the present time, or of just after `after_ms` if that is later."""
        return cls(uuid.uuid4().hex, max(time.time_ns() // 1_000_000, after_ms + 1))


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that was unpacked.

    Attributes:
        file: file name.
        sha256: SHA-256 of the file, in hexadecimal.
    """

    file: str
    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point."""

    group: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class InstalledDistribution:
    """A distribution in its own folder.

    Attributes:
        name: canonical name.
        folder: folder with its unpacked wheels.
        wheels: its own wheel, then the wheels of dependencies that the service lacks.
        plugins: its entry points in Solward's groups.
        accepted: needs that were accepted for each plugin, by `group:name`; plugins whose
            declarations were never read have none.
        left_out: files of the wheels that are not unpacked, because an interpreter would run them.
        enabled: whether the service may load it.
        digest: digest of `folder` at the time of acceptance (`tree_digest`).
        act: the latest command for it.
    """

    name: str
    version: str
    folder: Path
    wheels: tuple[Wheel, ...]
    plugins: tuple[Plugin, ...]
    accepted: Mapping[str, Terms] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    enabled: bool = True
    digest: str = ""
    act: PluginCommand = field(default_factory=PluginCommand.new)

    def distribution(self) -> PathDistribution:
        """Return its metadata, read from its folder; imports nothing.

        Raises:
            FolderError: if there is none.
        """
        # `distributions` would also ask finders that other libraries have installed.
        place = DistributionFinder.Context(path=[str(self.folder)])
        for found in MetadataPathFinder.find_distributions(place):
            if canonical(found.name or "") == self.name:
                return found
        raise FolderError(f"{self.folder} has no metadata of {self.name}: install it again")


def canonical(distribution: str) -> str:
    """Return the normalized spelling of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def is_name(text: str) -> bool:
    """Return whether a text is a canonical name that may have a folder."""
    return _NAME.fullmatch(text) is not None


def tree_digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files below a folder, in hexadecimal.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it contains something that unpacked wheels never do, such as a link.
    """
    whole = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = os.path.join(place, name)
            if not stat.S_ISREG(os.lstat(file).st_mode):
                raise ValueError(f"{file} is no plain file")
            with open(file, "rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            path = os.path.relpath(file, folder)
            whole.update(f"{digest} {len(os.fsencode(path))} ".encode() + os.fsencode(path))
        if any(os.path.islink(os.path.join(place, each)) for each in folders):
            raise ValueError(f"{place} contains a link to a folder")
    return whole.hexdigest()


def plugins_folder(home: Path) -> Path:
    """Return the folder of a home that contains plugins' folders."""
    return home / FOLDER


@dataclass(frozen=True, slots=True)
class State:
    """The distributions in folders of a home.

    Attributes:
        installed: installed distributions by name, sorted.
        unreadable: reasons why other records cannot be read, by name.
        removed: the commands that removed distributions, by name.
    """

    installed: Mapping[str, InstalledDistribution]
    unreadable: Mapping[str, str]
    removed: Mapping[str, PluginCommand]


def state(home: Path) -> State:
    """Return the present state of a home."""
    found, unreadable = installed(home)
    return State({each.name: each for each in found}, unreadable, removals(home))


def next_act(home: Path, name: str) -> PluginCommand:
    """Return a new command for a distribution, later than all its earlier commands in this home."""
    found = [each.ms for each in [removals(home).get(name)] if each is not None]
    with contextlib.suppress(FolderError):
        one = read(home, name)
        found += [] if one is None else [one.act.ms]
    return PluginCommand.new(max(found, default=0))


def removals(home: Path) -> dict[str, PluginCommand]:
    """Return the commands that removed distributions, by name."""
    removed: dict[str, PluginCommand] = {}
    for name in _listed_names(plugins_folder(home) / _REMOVED):
        with contextlib.suppress(OSError, ValueError, TypeError):
            raw = jsontext.loads((plugins_folder(home) / _REMOVED / name).read_bytes())
            removed[name] = PluginCommand(**raw)
    return removed


def fingerprint(home: Path) -> Hashable:
    """Return a value that changes whenever a command changes the installed distributions.

    It is cheap enough to be called every second: each command replaces a file, so no file is read.
    """
    root = plugins_folder(home)
    marks = []
    paths = [root / name / RECORD for name in _listed_names(root)]
    paths += [root / _REMOVED / name for name in _listed_names(root / _REMOVED)]
    for path in paths:
        with contextlib.suppress(OSError):
            found = path.stat()
            marks.append((str(path), found.st_ino, found.st_mtime_ns, found.st_size))
    return tuple(marks)


def _listed_names(folder: Path) -> list[str]:
    """Return the distributions that have an entry in a folder; none if it cannot be read."""
    try:
        return sorted(filter(_NAME.fullmatch, os.listdir(folder)))
    except OSError:
        return []


def installed(home: Path) -> tuple[list[InstalledDistribution], dict[str, str]]:
    """Return the installed distributions, sorted by name, and why other records are unreadable."""
    found: list[InstalledDistribution] = []
    unreadable: dict[str, str] = {}
    try:
        names = sorted(filter(_NAME.fullmatch, os.listdir(plugins_folder(home))))
    except FileNotFoundError:
        names = []
    except OSError as error:
        return [], {"*": f"{plugins_folder(home)} cannot be read: {error.strerror}"}
    for name in names:
        try:
            one = read(home, name)
        except FolderError as error:
            unreadable[name] = str(error)
        else:
            if one is not None:
                found.append(one)
    return found, unreadable


def read(home: Path, name: str) -> InstalledDistribution | None:
    """Return the distribution with a canonical name; None if it is not installed.

    Raises:
        FolderError: if its record cannot be read.
    """
    if _NAME.fullmatch(name) is None:
        return None
    path = plugins_folder(home) / name / RECORD
    try:
        with path.open("rb") as file:
            raw = jsontext.loads(file.read(_MAX_RECORD))
        if raw["format"] != FORMAT or raw["name"] != name:
            raise ValueError("its format or name differs")
        if _FOLDER.fullmatch(raw["folder"]) is None:
            raise ValueError("its folder has no valid name")
        return InstalledDistribution(
            name,
            raw["version"],
            path.parent / raw["folder"],
            tuple(Wheel(**each) for each in raw["wheels"]),
            tuple(Plugin(**each) for each in raw["plugins"]),
            {plugin: read_terms(each) for plugin, each in raw["accepted"].items()},
            tuple(raw["leftOut"]),
            raw["enabled"],
            raw["digest"],
            PluginCommand(**raw["act"]),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FolderError(f"{path} is not a valid record of an installation ({error})") from None


def write(home: Path, one: InstalledDistribution) -> None:
    """Write the record of a distribution; after a crash, the old or the new record exists."""
    raw = {
        "format": FORMAT,
        "name": one.name,
        "version": one.version,
        "folder": one.folder.name,
        "wheels": [asdict(each) for each in one.wheels],
        "plugins": [asdict(each) for each in one.plugins],
        "accepted": {name: terms_json(each) for name, each in one.accepted.items()},
        "leftOut": list(one.left_out),
        "enabled": one.enabled,
        "digest": one.digest,
        "act": asdict(one.act),
    }
    write_file(plugins_folder(home) / one.name / RECORD, jsontext.dumps(raw).encode())


def move_into_place(home: Path, name: str, tree: Path, folder: str) -> Path:
    """Move unpacked wheels to the place that a record may name.

    Args:
        folder: name of their folder; an existing one with this name has the same content.
    """
    target = plugins_folder(home) / name / folder
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if not target.exists():
        # The files must be on the disk before a record names them, even if the power fails.
        os.sync()
        os.rename(tree, target)
        sync_folder(target.parent)
    return target


def remove_record(home: Path, name: str) -> None:
    """Remove a record; its folder is removed once nothing uses it."""
    removed = plugins_folder(home) / _REMOVED
    removed.mkdir(mode=0o700, exist_ok=True)
    # Written first: after a crash the distribution must not look lost.
    write_file(removed / name, jsontext.dumps(asdict(next_act(home, name))).encode())
    folder = plugins_folder(home) / name
    if folder.is_dir():
        (folder / RECORD).unlink(missing_ok=True)
        sync_folder(folder)


@contextmanager
def prepare_change(home: Path) -> Iterator[Path]:
    """Yield a folder in which to prepare a change, and keep other processes from changing anything.

    Raises:
        FolderError: if another process is changing something, or the home cannot be written.
    """
    root, lock = plugins_folder(home), _open_lock(home, _LOCK)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(
                "Another command is changing the installed plugins; try again later"
            ) from None
        _discard_unfinished(root)
        staging = Path(tempfile.mkdtemp(dir=root, prefix=_STAGING))
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            _remove_unused(home)
    except OSError as error:
        raise FolderError(f"{root} cannot be changed: {error.strerror or error}") from None
    finally:
        os.close(lock)


@contextmanager
def keep_folders(home: Path) -> Iterator[None]:
    """Keep the home's present folders from being removed inside the block, while they are imported.

    Raises:
        FolderError: if the home cannot be written.
    """
    used = _open_lock(home, _USED)
    try:
        # This waits while another process sweeps, which takes little time.
        fcntl.flock(used, fcntl.LOCK_SH)
        yield
    finally:
        os.close(used)


def _open_lock(home: Path, name: str) -> int:
    """Return the descriptor of a lock file, made if missing; raise `FolderError` on failure."""
    root = plugins_folder(home)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FolderError(f"{root} cannot be written: {error.strerror}") from None


def is_in_use(home: Path) -> bool:
    """Return whether a process imports from folders of a home."""
    try:
        used = os.open(plugins_folder(home) / _USED, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(used)


def _remove_unused(home: Path) -> None:
    """Remove the folders that no record names, unless a process uses folders of the home."""
    root = plugins_folder(home)
    used = os.open(root / _USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        for name in filter(_NAME.fullmatch, os.listdir(root)):
            with contextlib.suppress(FolderError):
                one = read(home, name)
                _trash_unused(root, name, None if one is None else one.folder.name)
        _discard_unfinished(root)
    finally:
        os.close(used)


def _trash_unused(root: Path, name: str, kept: str | None) -> None:
    for left in os.listdir(root / name):
        if left not in (RECORD, kept):
            # Renamed first, so that a folder under its own name is always complete.
            trash = tempfile.mkdtemp(dir=root, prefix=_TRASH)
            os.rename(root / name / left, os.path.join(trash, left))
    if kept is None:
        with contextlib.suppress(OSError):
            os.rmdir(root / name)


def _discard_unfinished(root: Path) -> None:
    for name in os.listdir(root):
        if name.startswith((_STAGING, _TRASH)):
            shutil.rmtree(root / name, ignore_errors=True)


def folder_fields(one: InstalledDistribution) -> dict[str, Any]:
    """Return an installed distribution's folder as the command line and REST show it."""
    return {
        "folder": str(one.folder),
        "enabled": one.enabled,
        "wheels": [{"file": each.file, "sha256": each.sha256} for each in one.wheels],
        "leftOut": list(one.left_out),
    }
