"""Confinement of a process that runs third-party code: no files, network, processes or memory of
the service.

Call `confine` in a forked child with one thread, before it imports a plugin. The process can still
learn whether a path exists, its size and its times, because imports need `os.stat`. Nothing here
limits a scratch folder's total size: whoever starts the process must check that.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable

from solward.hosts.confinement import landlock, seccomp

_CLOSE_RANGE = 436  # system call, on every architecture
_CHILD_S = 10.0
_SET_DUMPABLE, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT, _CLEAR_ALL = 4, 24, 38, 47, 4
_CAPABILITIES_V3 = 0x20080522

# Paths that Python and libc open themselves: libraries, time zones, locales, public certificates.
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/ca-certificates",
    "/usr/share/i18n",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
)


class ConfinementUnavailable(Exception):
    """The machine or the process cannot be confined; the text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Confinement:
    """The files, descriptors and resources that a confined process may use.

    Attributes:
        read: files and folders that it may read, besides the libraries of Python and the system.
        write: scratch folders, in which it may make, change and remove files.
        keep_fds: descriptors that stay open; 0, 1 and 2 become `/dev/null` unless named.
        memory_bytes: the address space, threads' stacks included.
        open_files: descriptors at the same time.
        file_bytes: the size of one file.
        cpu_s: seconds of processor time, after which the kernel ends the process.
        own_session: whether it gets a session of its own; otherwise a process group of its own in
            its present session, which must have no terminal. Linux divides processors among
            sessions first (sched(7), autogroup).
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    keep_fds: tuple[int, ...] = ()
    memory_bytes: int = 1 << 30
    open_files: int = 64
    file_bytes: int = 16 << 20
    cpu_s: int | None = None
    own_session: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Availability:
    """The ability of this machine to confine processes.

    Attributes:
        reason: why the machine cannot; empty if it can.
        landlock_abi: the version, as returned by `landlock.abi`.
    """

    available: bool
    reason: str
    landlock_abi: int


def interpreter_paths() -> tuple[str, ...]:
    """Return the paths of Python's and the system's standard and shared libraries."""
    base = os.path.realpath(sys.base_prefix)
    return tuple(dict.fromkeys((os.path.join(base, "lib"), os.path.dirname(os.__file__), *_SYSTEM)))


def confine(confinement: Confinement, *, abi: int | None = None) -> None:
    """Confine this process irrevocably.

    Args:
        abi: a Landlock version to use instead of the kernel's, for tests of older kernels.

    Raises:
        ConfinementUnavailable: if it fails. The process may be confined in part, and must end.
    """
    known = landlock.abi() if abi is None else abi
    if reason := _missing_support(known):
        raise ConfinementUnavailable(reason)
    if _thread_count() != 1:
        raise ConfinementUnavailable("a process with several threads cannot be confined")
    try:
        leave_group(confinement)
        _close_descriptors(confinement.keep_fds)
        os.umask(0o077)
        _set_limits(confinement)
        _drop_capabilities()
        _prctl(_SET_NO_NEW_PRIVS, 1)
        _prctl(_SET_DUMPABLE, 0)
        landlock.restrict_files(
            (*interpreter_paths(), *confinement.read),
            ("/dev/null", *confinement.write),
            abi=known,
        )
        seccomp.refuse_calls()
    except (OSError, ValueError) as error:
        raise ConfinementUnavailable(f"the kernel refused to confine it: {error}") from error


def leave_group(confinement: Confinement) -> None:
    """Move this process to its own session or process group, unless it leads a session."""
    if os.getsid(0) == os.getpid():
        return
    if confinement.own_session:
        os.setsid()
    else:
        os.setpgid(0, 0)


def probe_confinement() -> Availability:
    """Test in a forked child whether confinement refuses forbidden calls; takes up to 10 ms."""
    known = landlock.abi()
    if reason := _missing_support(known):
        return Availability(False, reason, known)
    reason = _run_in_child(_test_confinement)
    return Availability(not reason, reason, known)


def _missing_support(abi: int) -> str:
    if sys.platform != "linux":
        return f"needs Linux; this machine runs {sys.platform}"
    if not seccomp.supported():
        return f"needs 64-bit x86-64 or aarch64; this machine is {os.uname().machine}"
    if abi == landlock.FILTERED:
        return "a seccomp filter of the container or systemd unit refuses Landlock's system calls"
    if abi == landlock.SWITCHED_OFF:
        return "Landlock is switched off: the kernel's parameter lsm= does not name it"
    if abi < landlock.MINIMUM_ABI:
        was = f"this kernel has ABI {abi}" if abi else "this kernel or container has no Landlock"
        return f"needs Landlock ABI {landlock.MINIMUM_ABI} (Linux 6.2); {was}"
    return ""


def _test_confinement() -> str:
    try:
        confine(Confinement(keep_fds=(1,)))
    except ConfinementUnavailable as error:
        return str(error)
    attacks: tuple[tuple[str, Callable[[], object]], ...] = (
        ("open a folder", lambda: os.listdir("/")),
        ("make a socket", socket.socket),
        ("signal its parent", lambda: os.kill(os.getppid(), 0)),
    )
    for what, attack in attacks:
        try:
            attack()
        except PermissionError:
            continue
        return f"a confined process could still {what}"
    return ""


def _run_in_child(work: Callable[[], str]) -> str:
    """Return the answer of `work`, run in a forked child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writing, 1)
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            os.write(1, b"=" + text.encode()[:1000])
        os._exit(0)
    os.close(writing)
    try:
        ready = select.select([reading], [], [], _CHILD_S)[0]
        answer = os.read(reading, 2000) if ready else b""
        if not answer:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(reading)
        os.waitpid(pid, 0)
    return answer[1:].decode() if answer else "a confined process ended without an answer"


def _thread_count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except FileNotFoundError:
        return threading.active_count()


def _close_descriptors(keep: Iterable[int]) -> None:
    kept = sorted(set(keep))
    for standard in {0, 1, 2} - set(kept):
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, standard)
    first = 3
    for last in [*(fd - 1 for fd in kept if fd > 2), 0xFFFFFFFF]:
        if last >= first:
            _check_result(_libc().syscall(_CLOSE_RANGE, first, ctypes.c_uint(last), 0))
        first = max(first, last + 2)


def _set_limits(confinement: Confinement) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NICE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_FSIZE: confinement.file_bytes,
        resource.RLIMIT_NOFILE: confinement.open_files,
        resource.RLIMIT_AS: confinement.memory_bytes,
    }
    if confinement.cpu_s is not None:
        limits[resource.RLIMIT_CPU] = confinement.cpu_s
    for name, limit in limits.items():
        most = resource.getrlimit(name)[1]
        if most != resource.RLIM_INFINITY:
            limit = min(limit, most)
        resource.setrlimit(name, (limit, limit))


def _drop_capabilities() -> None:
    for capability in range(64):
        # The call fails for ordinary users, who have no capabilities, and for unknown numbers.
        if _libc().prctl(_CAPBSET_DROP, capability, 0, 0, 0):
            break
    _prctl(_CAP_AMBIENT, _CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    _check_result(_libc().capset(header, (ctypes.c_uint32 * 6)()))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    _check_result(_libc().prctl(option, value, 0, 0, 0))


def _check_result(answer: int) -> None:
    if answer:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
