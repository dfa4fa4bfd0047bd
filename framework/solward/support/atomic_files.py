"""Files that are written whole or not at all, whatever is killed meanwhile."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_file(path: Path, content: bytes) -> None:
    """Put a file of mode 0600 in the place of the one before, if any, and onto the disk.

    Raises:
        OSError: it cannot be written; the one before stays.
    """
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Yield a file to write that is in the place of the one before once the block ended without an
    error; as `write_file`.

    Args:
        replace: where it is False, a file that exists stays, and `FileExistsError` is raised.
    """
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(made, path)
        else:
            # `link` fails where `rename` would replace a file.
            os.link(made, path)
            os.unlink(made)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder onto the disk; Windows has no way to, and does by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
