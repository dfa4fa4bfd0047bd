"""Folders for plugins' own files, one for each distribution; upgrades do not change them.

    <home>/storage/<name>/

Plugin hosts write there, so the content cannot be trusted. Code here reads only plain files, does
not follow links, does not wait, and does not recurse.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from solward.plugins.folders.layout import canonical, is_name
from solward.types.manifest import Manifest

FOLDER = "storage"


def storage_folder(home: Path, name: str) -> Path | None:
    """Return the folder for files of a distribution's plugins; None if the name is not valid."""
    return home / FOLDER / name if is_name(name) else None


def make_storage(folder: Path) -> None:
    """Make a distribution's folder if it is missing, readable by its owner alone."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def ensure_storage(home: Path, manifest: Manifest | None, distribution: str) -> Path | None:
    """Make and return the folder for a distribution's files; None if the manifest needs none."""
    if manifest is None or not manifest.storage_mb:
        return None
    folder = storage_folder(home, canonical(distribution))
    if folder is not None:
        make_storage(folder)
    return folder


def stored_distributions(home: Path) -> list[str]:
    """Return the names of the distributions that have a folder."""
    try:
        return sorted(filter(is_name, os.listdir(home / FOLDER)))
    except OSError:
        return []


def stored_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield every plain file below a folder, each with its relative path."""
    left = [""]
    while left:
        folder = left.pop()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            continue  # it is gone, or unreadable
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                left.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path, Path(entry.path)


def empty_folder(folder: Path) -> None:
    """Delete everything in a distribution's folder, however deep, and whatever its permissions.

    The folder itself stays, because a running plugin host may use it.

    Raises:
        OSError: if something cannot be deleted.
    """
    numbers = itertools.count()
    while inner := _delete_files(folder):
        # Folders one level down are moved up, so that no path gets too long.
        for each in inner:
            os.chmod(each, 0o700)
            for entry in list(os.scandir(each)):
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.path, 0o700)
                os.rename(entry.path, folder / f".emptied-{os.getpid()}-{next(numbers)}")
            os.rmdir(each)


def _delete_files(folder: Path) -> list[str]:
    """Delete the files of a folder, and return the folders in it."""
    left = []
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            left.append(entry.path)
        else:
            os.unlink(entry.path)
    return left
