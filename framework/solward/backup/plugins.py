"""Plugins of a home in a backup: those of folders of their own, and what plugins keep.

A restored home loads only what was accepted: the bytes of each folder are compared with the record
of its installation, and what differs is left out of the home. What plugins keep is copied file by
file while they go on writing, so it is no more than what stood in each file.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from solward.plugins.folders import layout, storage

FOLDERS = (layout.FOLDER, storage.FOLDER)
# A home that a backup is restored to may have a longer path; the system's own limit is 4,096.
_MAX_PATH: Final = 1_200
# Of what a distribution keeps: its host may hold no more, but has a second to make them.
_MAX_KEPT: Final = 1_000
_MAX_NAMED: Final = 20


def is_path(name: str) -> bool:
    """Whether a backup may hold a file of this name: one below a distribution's folder."""
    first, *rest = name.split("/")
    return (
        first in FOLDERS
        and len(rest) >= 2
        and layout.is_name(rest[0])
        and all(part not in ("", ".", "..") and "\0" not in part for part in rest)
    )


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, for their owner alone, where they are missing."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700)


def copy_plugins(home: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Copy records, unpacked wheels and what plugins keep from a home into `folder`.

    Returns:
        The names of the copies, and in words what is left out.
    """
    left_out: list[str] = []
    # What stands there stays until it is copied, also where an upgrade replaces it meanwhile.
    with layout.in_use(home):
        installed, unreadable = layout.installed(home)
        left_out += unreadable.values()
        for one in installed:
            own = layout.plugins_folder(folder) / one.name
            make_folder(own)
            _copy(one.folder, own / one.folder.name, left_out)
            layout.write(folder, one)
    for name in storage.stored(home):
        own = folder / storage.FOLDER / name
        _copy(home / storage.FOLDER / name, own, left_out, _MAX_KEPT)
    return [path for top in FOLDERS for path, _ in _below(folder, top)], left_out


def refused(folder: Path) -> dict[str, str]:
    """Distributions of a backup's files, in `folder`, that must not be loaded, and why."""
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


def _below(folder: Path, top: str) -> Iterator[tuple[str, Path]]:
    return ((f"{top}/{path}", file) for path, file in storage.files(folder / top))


def _copy(source: Path, target: Path, left_out: list[str], most: int | None = None) -> None:
    """Copy the files below a folder, `most` of them, whatever they are called."""
    copied = unnamed = 0
    for path, file in storage.files(source):
        if "__pycache__" in path.split("/"):
            continue  # no wheel is unpacked with it
        try:
            path.encode()
            if copied == most:
                raise ValueError(f"the folder holds more than {most:,} files")
            if len(os.fsencode(path)) > _MAX_PATH:
                raise ValueError("its path is too long")
            _copy_file(file, target / path)
            copied += 1
        except FileNotFoundError:
            continue  # removed meanwhile
        except (OSError, ValueError) as error:
            if len(left_out) >= _MAX_NAMED:
                unnamed += 1
                continue
            why = error.strerror if isinstance(error, OSError) else str(error)
            why = "its name is no UTF-8" if isinstance(error, UnicodeError) else why
            left_out.append(f"{os.fsencode(file)[:_MAX_PATH]!r}: {why}")
    if unnamed:
        left_out.append(f"{unnamed:,} more files of {source.name}")


def _copy_file(source: Path, target: Path) -> None:
    make_folder(target.parent)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(source, flags), "rb") as content:
        if not stat.S_ISREG(os.fstat(content.fileno()).st_mode):
            raise OSError(None, "it is no plain file")
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(made, "wb") as copy:
            shutil.copyfileobj(content, copy, 1 << 20)
