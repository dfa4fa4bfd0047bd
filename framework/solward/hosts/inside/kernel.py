"""What zygote and hosts ask of the kernel for themselves, and agree on with the service."""

from __future__ import annotations

import ctypes
import os
import signal

EXIT_UNCONFINED = os.EX_CONFIG
"""The status of a host that could not confine itself."""
MAX_PACKET = 64 * 1024
"""Bytes of a message between service and zygote."""

_SET_PDEATHSIG, _SET_NAME = 1, 15
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, which must still be `parent`."""
    if _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        # It ended before the call above.
        os._exit(0)


def name_process(name: str) -> None:
    """Show `name` in `ps` and `top`; the kernel keeps 15 bytes of it."""
    _libc.prctl(_SET_NAME, name.encode()[:15], 0, 0, 0)
