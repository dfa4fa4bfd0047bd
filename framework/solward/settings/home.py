"""SOLWARD_HOME: one folder, locked by one process, or shared where nothing in it is written (with
PostgreSQL it has a key file at most)."""

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
    """Returns where language models are installed by default: in this interpreter's environment."""
    return Path(sys.prefix, "share", "solward", "models")


@dataclass(frozen=True, slots=True)
class Home:
    """A SOLWARD_HOME that this process has locked, or shares."""

    path: Path

    @classmethod
    @contextmanager
    def locked(cls, path: Path) -> Iterator[Home]:
        """Create the folder where it is missing (mode 0700) and lock it until the block ends.

        The kernel releases the lock when the process ends, even when it is killed.

        Raises:
            HomeLocked: naming the path and the process that has the lock.
            ConfigError: the folder cannot be created or written.
        """
        with _usable(path):
            _create(path)
            descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, path)
            yield cls(path)
        finally:
            os.close(descriptor)

    @classmethod
    @contextmanager
    def opened(cls, path: Path, *, shared: bool) -> Iterator[Home]:
        """As `locked`, or only created where other processes share it.

        Raises:
            HomeLocked, ConfigError: as `locked`.
        """
        if not shared:
            with cls.locked(path) as home:
                yield home
            return
        with _usable(path):
            _create(path)
        yield cls(path)


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"SOLWARD_HOME {path} cannot be used: {error.strerror}") from None


def _create(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        by = f"process {owner}" if owner else "another process"
        raise HomeLocked(
            f"SOLWARD_HOME {path} is in use by {by}; stop it, or set another SOLWARD_HOME"
        ) from None
    # The number only explains a refusal, so a full disk is no reason to fail.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
