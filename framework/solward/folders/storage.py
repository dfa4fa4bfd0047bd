"""What plugins keep: a folder of a distribution's own, beside the installed one and untouched by
its upgrades.

    <home>/storage/<name>/

Its host writes there, so it holds whatever a stranger likes. Who reads it takes plain files alone,
follows nothing and waits for nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from solward.folders.layout import is_name

FOLDER = "storage"


def storage_folder(home: Path, name: str) -> Path | None:
    """The folder of a distribution, by its canonical name; None where that is no such name."""
    return home / FOLDER / name if is_name(name) else None


def stored(home: Path) -> list[str]:
    """The distributions that have a folder."""
    try:
        return sorted(filter(is_name, os.listdir(home / FOLDER)))
    except OSError:
        return []


def files(root: Path) -> Iterator[tuple[str, Path]]:
    """Every plain file below a folder, by its path from there with `/`."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        return  # it is gone meanwhile
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from ((f"{entry.name}/{path}", file) for path, file in files(Path(entry.path)))
        elif entry.is_file(follow_symlinks=False):
            yield entry.name, Path(entry.path)


def used_bytes(root: Path) -> int:
    """Of all files together, as they say."""
    return sum(file.lstat().st_size for _, file in files(root))


def purge(home: Path, name: str) -> None:
    """Delete all that a distribution keeps."""
    folder = storage_folder(home, name)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
