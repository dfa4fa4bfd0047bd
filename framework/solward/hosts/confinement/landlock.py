"""Limits of the files that a process may reach, by Landlock.

Sources: Linux `include/uapi/linux/landlock.h`, `Documentation/userspace-api/landlock.rst`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable

# ABI 3 is Linux 6.2. Before it, a process could truncate a file that it may only read.
MINIMUM_ABI = 3
# Instead of a version: the kernel was started without Landlock, or a seccomp filter refuses it.
SWITCHED_OFF, FILTERED = -1, -2

# The system calls by name, for configurations that allow them; all architectures use these numbers.
CALLS = {
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = CALLS.values()
_VERSION, _PATH_BENEATH = 1, 1

_WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (
    1 << 1,
    1 << 2,
    1 << 3,
    1 << 4,
    1 << 5,
)
_MAKE_DIR, _MAKE_REG, _TRUNCATE = 1 << 7, 1 << 8, 1 << 14
_READ = _READ_FILE | _READ_DIR
# No devices, sockets, fifos or symbolic links: they would mislead readers of a scratch folder.
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_FILE_RIGHTS = _READ_FILE | _WRITE_FILE | _TRUNCATE
# Rights on files that each ABI knows: 2 adds moving between folders, 3 truncation, 5 device ioctls.
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_NETWORK = 3  # from ABI 4: bind and connect of TCP
_SCOPES = 3  # from ABI 6: abstract sockets and signals of processes outside


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _system_call(number: int, *arguments: int | bytes | None) -> int:
    typed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer: int = _libc().syscall(ctypes.c_long(number), *typed)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def abi() -> int:
    """Return the kernel's Landlock version; 0 if it has none, or `SWITCHED_OFF` or `FILTERED`."""
    if sys.platform != "linux":
        return 0
    try:
        return _system_call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        return {errno.EOPNOTSUPP: SWITCHED_OFF, errno.EPERM: FILTERED}.get(error.errno or 0, 0)


def restrict_files(read: Iterable[str], write: Iterable[str], *, abi: int) -> None:
    """Restrict this thread, and threads it makes, to files beneath these paths, and forbid TCP.

    Args:
        read: files and folders; one that does not exist or is out of this user's reach is ignored.
        write: paths beneath which files and folders may also be made, changed and removed.
        abi: the version to use, at most `abi()`.

    Raises:
        OSError: if the kernel refuses it; `no_new_privs` must be set.
    """
    handled = _HANDLED[max(known for known in _HANDLED if known <= abi)]
    attributes = struct.pack("=QQQ", handled, _NETWORK, _SCOPES)
    size = 8 if abi < 4 else 16 if abi < 6 else 24  # bytes of the struct in this ABI
    ruleset = _system_call(_CREATE_RULESET, attributes, size, 0)
    try:
        for paths, rights in ((read, _READ), (write, _WRITE)):
            for path in paths:
                _add_path_rule(ruleset, path, rights)
        _system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _add_path_rule(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        folder = os.path.isdir(path)
        rule = struct.pack("=Qi", rights if folder else rights & _FILE_RIGHTS, beneath)
        _system_call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(beneath)
