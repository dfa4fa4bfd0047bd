"""Files that are written whole or not at all, even if the process is killed meanwhile."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_file(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 and sync it to the disk; replace any file at this path.

    Raises:
        OSError: the file cannot be written; a former file stays unchanged.
    """
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file to write. If the block ends without an error, the file is moved to `path`
    and synced, as by `write_file`.

    Args:
        replace: if False, an existing file stays, and `FileExistsError` is raised.
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
    """Write a folder's entries to the disk; does nothing on Windows, which does so by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
