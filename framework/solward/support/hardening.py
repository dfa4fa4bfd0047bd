"""Hardening of a process that holds keys, at its entry point."""

from __future__ import annotations

import ctypes
import os
import resource
import sys

_SET_DUMPABLE = 4


def protect_memory() -> None:
    """Keep this process's memory, keys included, from disks and other processes.

    A crash writes no core dump. On Linux other processes of the same user cannot read its memory
    and its initial environment, nor attach to it; root can. The protection does not extend to
    programs that this process starts.

    Raises:
        OSError: the kernel refused it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
