"""What zygote and hosts ask of the kernel for themselves, and agree on with the service."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time

from solward.hosts.confinement.seccomp import number_of

EXIT_UNCONFINED = os.EX_CONFIG
"""The status of a host that could not confine itself."""
MAX_PACKET = 64 * 1024
"""Bytes of a message between service and zygote."""
SESSION = "/proc/self/autogroup"
"""What this process's session gets of scarce processors (sched(7)); not on every kernel."""

LONG_TURN_NS = 10_000_000
"""Longer than the turn of a process that asks for none, 0.7 to 2.8 ms (the scheduler's
`base_slice_ns`), and not so long that a host waits noticeably for another's."""

_TRIES = 5
_BETWEEN_S = 0.1
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


def set_turn(ns: int) -> None:
    """Have this process, and those it forks, ask for turns of so many nanoseconds; 0 for as long as
    others get.

    A process that wakes takes the processor at once from one with longer turns, and otherwise may
    have to wait for the end of a turn, at the clock's next tick, however low the other's share is:
    since Linux 6.12 (`sched_attr.sched_runtime`, PREEMPT_SHORT); older ones have no such thing.
    """
    call = number_of("sched_setattr")
    if call is not None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, ns, 0, 0)
        # Without it a host is as it was.
        _libc.syscall(ctypes.c_long(call), 0, attributes, 0)


def set_session_nice(file: int, nice: int) -> None:
    """Have all processes of a session together get less of scarce processors than others.

    Where sessions are scheduled as groups, a process's own nice value counts in its group alone.

    Args:
        file: `SESSION` of a process of it, opened to write.
        nice: 0 to 19.
    """
    for _ in range(_TRIES):
        try:
            os.write(file, str(nice).encode())
        except BlockingIOError:
            # The kernel takes ten such changes a second, of all processes together.
            time.sleep(_BETWEEN_S)
        except OSError:
            return  # the session is gone
        else:
            return
