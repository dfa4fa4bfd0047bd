"""The lock of a SQLite database file: one process at a time, whatever path or home names it.

It is on the file itself, so symbolic and hard links to it meet the same lock. SQLite's own locks
(sqlite.org, "File Locking And Concurrency") are for single transactions: they let two services in.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from solward.types.errors import HomeLocked, StoreError

# `struct flock` of fcntl(2): type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi4x")
# Linux's locks of an open file: no other descriptor's close releases them, unlike the locks SQLite
# takes, and two of one process exclude each other. Of one byte beyond any database's end, because
# locks of a range that SQLite uses would stop it.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)
_AT, _BYTES = 2**62, 1
# SQLite's shared range, which a connection in WAL mode holds while it is open.
_SHARED_AT, _SHARED_BYTES = 0x40000002, 510

# Files that this process has locked, by device and inode. Closing any descriptor of a file releases
# SQLite's locks on it in the whole process, so a second lock must be refused before it opens one.
_held: set[tuple[int, int]] = set()


class FileLock:
    """An exclusive lock of a database file, which is made (mode 0600) where it is missing.

    Taken before SQLite opens the file and released after SQLite closed it; the kernel releases it
    when the process ends, even when it is killed.

    Raises:
        HomeLocked: another process has it, or this one by another `FileLock`.
        StoreError: its file system has no locks.
        OSError: the file cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and _identity(os.stat(path)) in _held:
            raise _refusal(path, os.getpid())
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._descriptor, path)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._identity = _identity(os.fstat(self._descriptor))
        _held.add(self._identity)

    def release(self) -> None:
        """Let another process have the file; a second call does nothing."""
        if self._descriptor >= 0:
            _held.discard(self._identity)
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int, path: Path) -> None:
    if _SET_LOCK is None:
        return
    try:
        fcntl.fcntl(descriptor, _SET_LOCK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _AT, _BYTES, 0))
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise StoreError(f"The database {path} cannot be locked: {error.strerror}") from None
        raise _refusal(path, _reader(descriptor)) from None


def _reader(descriptor: int) -> int:
    """A process that has the database open, 0 where none is known; it only explains a refusal."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_AT, _SHARED_BYTES, 0)
    try:
        kind, *_range, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    except OSError:
        return 0
    return 0 if kind == fcntl.F_UNLCK else max(0, int(process))


def _refusal(path: Path, process: int) -> HomeLocked:
    by = f"process {process}" if process else "another process"
    return HomeLocked(
        f"The database {path} is in use by {by}; stop it, or set another DATABASE_URL"
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
