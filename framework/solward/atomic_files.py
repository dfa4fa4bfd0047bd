"""Files that are written whole or not at all, whatever is killed meanwhile."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_file(path: Path, content: bytes) -> None:
    """Put a file of mode 0600 in the place of the one before, if any, and onto the disk.

    Raises:
        OSError: it cannot be written; the one before stays.
    """
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
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
