"""SOLWARD_HOME, a folder that one process locks. Processes share it if nothing in it is written:
with PostgreSQL it has at most a key file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from solward.types.errors import ConfigError, HomeLocked

LOCK_NAME = "solward.lock"


def default_models_folder() -> Path:
    """Return the default folder of language models, in this interpreter's environment."""
    return Path(sys.prefix, "share", "solward", "models")


@dataclass(frozen=True, slots=True)
class Home:
    """A SOLWARD_HOME that this process has locked, or shares with others."""

    path: Path

    @classmethod
    @contextmanager
    def opened(cls, path: Path, *, shared: bool = False) -> Iterator[Home]:
        """Create the folder if it is missing (mode 0700). Lock it until the block ends, unless
        other processes share it.

        The kernel releases the lock when the process ends, even when it is killed.

        Raises:
            HomeLocked: another process has the lock; names the path and that process.
            ConfigError: the folder cannot be created or written.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
            descriptor = None if shared else os.open(path / LOCK_NAME, flags, 0o600)
        except OSError as error:
            raise ConfigError(f"SOLWARD_HOME {path} cannot be used: {error.strerror}") from None
        try:
            if descriptor is not None:
                _lock(descriptor, path)
            yield cls(path)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        by = f"process {owner}" if owner else "another process"
        raise HomeLocked(
            f"SOLWARD_HOME {path} is in use by {by}; stop it, or set another SOLWARD_HOME"
        ) from None
    # The process number is only for error messages, so a full disk must not cause a failure.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
