"""A BPF filter of the system calls that a plugin host may not make.

The filter refuses the calls that are named here and lets all others pass: Landlock judges files,
and the rest affects only the calling process. Calls newer than the table fail with ENOSYS, so a new
kernel opens nothing. A refusal is an error: `socket.socket()` in a plugin raises `PermissionError`.

Sources: Linux `include/uapi/linux/{seccomp,filter,audit}.h`, `asm-generic/unistd.h` (aarch64) and
`arch/x86/entry/syscalls/syscall_64.tbl`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence

# By machine: the architecture that the kernel reports to a filter, and its column in the table.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_NEWEST = 451  # cachestat, Linux 6.5; both architectures number alike from 424 on

# Columns: name, x86-64, aarch64; `-` if an architecture has no such call.
_NUMBERS = """
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, setsid 112 157, setpgid 109 154

tkill 200 130, pidfd_open 434 434, pidfd_send_signal 424 424, pidfd_getfd 438 438, ptrace 101 117
process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, kcmp 312 272
process_mrelease 448 448, setpriority 141 140, sched_setparam 142 118, sched_setscheduler 144 119
sched_setattr 314 274, ioprio_set 251 30, migrate_pages 256 238, move_pages 279 239

socket 41 198, connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242

bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, personality 135 92, keyctl 250 219
add_key 248 217, request_key 249 218, seccomp 317 277, io_setup 206 0, io_submit 209 2
io_destroy 207 1, modify_ldt 154 -, iopl 172 -, ioperm 173 -, init_module 175 105
finit_module 313 273, delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294
reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89, syslog 103 116, quotactl 179 60
quotactl_fd 443 443, settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266
adjtimex 159 171, sethostname 170 161, setdomainname 171 162, vhangup 153 58, uselib 134 -
lookup_dcookie 212 18, nfsservctl 180 42, sysfs 139 -, ustat 136 -, _sysctl 156 -

unshare 272 97, setns 308 268, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51
open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432
fspick 433 433, mount_setattr 442 442, name_to_handle_at 303 264, open_by_handle_at 304 265

shmget 29 194, shmat 30 196, shmctl 31 195, shmdt 67 197, semget 64 190, semop 65 193
semctl 66 191, semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187
mq_open 240 180, mq_unlink 241 181, mq_timedsend 242 182, mq_timedreceive 243 183
mq_notify 244 184, mq_getsetattr 245 185

inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27, inotify_rm_watch 255 28
fanotify_init 300 262, fanotify_mark 301 263, setrlimit 160 164, sync 162 81, syncfs 306 267

chmod 90 -, fchmod 91 52, fchmodat 268 53, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54
utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88, mknod 133 -, mknodat 259 33
symlink 88 -, symlinkat 266 36, link 86 -, linkat 265 37
"""

# Refused as absent or unsupported, because libc and Python have fallbacks for that. `clone3` keeps
# its flags in memory, which a filter cannot read; libc then makes threads with `clone`. RLIMIT_AS
# does not count the memory of a `memfd`.
_ABSENT = """
clone3 435 435, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427
memfd_create 319 279, memfd_secret 447 447
"""
_UNSUPPORTED = """
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15
fremovexattr 199 16, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11
llistxattr 195 12, flistxattr 196 13
"""

_ALL = 0xFFFFFFFF
# (word of the arguments, mask, values): a call passes if every masked word is one of its values.
# An argument has two words, the lower first; if the kernel reads an int, only the lower counts.
_Check = tuple[int, int, tuple[int, ...]]

_THREAD, _NAMESPACES = 0x10000, 0x7E020000  # CLONE_THREAD, every CLONE_NEW*
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, 0o4000 | 0o2000000  # NONBLOCK, CLOEXEC
# F_SETOWN, F_SETSIG and their ioctls send any signal to any process of the same user, SIGKILL too.
# Allowed: descriptors and their flags, locks, a pipe's size (reading it).
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)
# Allowed: is it a terminal, its size, waiting bytes, blocking mode, close on exec; never TIOCSTI.
_IOCTL = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Allowed: names of threads and memory, and reads; never PDEATHSIG, DUMPABLE, PTRACER or MM.
_PRCTL = (2, 3, 15, 16, 21, 39, 0x53564D41)


def _argument_checks(pid: int) -> dict[str, tuple[_Check, ...]]:
    """Return the argument checks of each system call that only certain arguments allow."""
    return {
        "clone 56 220": ((0, _THREAD | _NAMESPACES, (_THREAD,)),),
        # A datagram socket of a pair could send to any other socket by its address.
        "socketpair 53 199": (
            (0, _ALL, (_AF_UNIX,)),
            (2, _ALL & ~_SOCK_FLAGS, (_SOCK_STREAM,)),
        ),
        "kill 62 129": ((0, _ALL, (pid,)),),
        "tgkill 234 131": ((0, _ALL, (pid,)),),
        "rt_sigqueueinfo 129 138": ((0, _ALL, (pid,)),),
        "rt_tgsigqueueinfo 297 240": ((0, _ALL, (pid,)),),
        "sched_setaffinity 203 122": ((0, _ALL, (0,)),),
        # `resource.getrlimit` and libc read the own limits; setting them is refused.
        "prlimit64 302 261": ((0, _ALL, (0, pid)), (4, _ALL, (0,)), (5, _ALL, (0,))),
        "fcntl 72 25": ((2, _ALL, _FCNTL),),
        "ioctl 16 29": ((2, _ALL, _IOCTL),),
        "prctl 157 167": ((0, _ALL, _PRCTL),),
        # FALLOC_FL_KEEP_SIZE takes room on the disk without regard to RLIMIT_FSIZE.
        "fallocate 285 47": ((2, _ALL, (0,)),),
    }


_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _AND, _RETURN = 0x20, 0x15, 0x25, 0x54, 0x06
_NR, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def _op(code: int, k: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, k)


def _table_entries(table: str, column: int) -> Iterator[tuple[str, str]]:
    for entry in table.strip().replace("\n\n", "\n").replace("\n", ", ").split(", "):
        fields = entry.split()
        yield fields[0], fields[1 + column]


def _refuse_all(table: str, column: int, error: int) -> list[bytes]:
    ops: list[bytes] = []
    for _, number in _table_entries(table, column):
        if number != "-":
            ops += [_op(_JUMP_EQUAL, int(number), 0, 1), _op(_RETURN, _ERRNO | error)]
    return ops


def _check_call(number: int, checks: Sequence[_Check]) -> list[bytes]:
    body: list[bytes] = []
    for word, mask, values in checks:
        body += [_op(_LOAD, _ARGS + 4 * word), _op(_AND, mask)]
        body += [_op(_JUMP_EQUAL, value, len(values) - i) for i, value in enumerate(values)]
        body.append(_op(_RETURN, _ERRNO | errno.EPERM))
    body.append(_op(_RETURN, _ALLOW))
    return [_op(_JUMP_EQUAL, number, 0, len(body)), *body]


def supported() -> bool:
    """Return whether the filter supports this machine's architecture."""
    return os.uname().machine in _ARCHITECTURES and ctypes.sizeof(ctypes.c_void_p) == 8


def call_number(name: str) -> int | None:
    """Return the number of a refused system call; None if this machine's architecture lacks it."""
    if not supported():
        return None
    _, column = _ARCHITECTURES[os.uname().machine]
    number = dict(_table_entries(_NUMBERS, column)).get(name, "-")
    return None if number == "-" else int(number)


def filter_program(machine: str, pid: int) -> bytes:
    """Return the seccomp filter for an architecture (`x86_64`, `aarch64`) and a process id."""
    arch, column = _ARCHITECTURES[machine]
    ops = [
        _op(_LOAD, _ARCH),
        _op(_JUMP_EQUAL, arch, 1, 0),
        _op(_RETURN, _KILL),  # the same numbers mean other calls on another architecture
        _op(_LOAD, _NR),
        _op(_JUMP_ABOVE, _NEWEST, 0, 1),  # x32's numbers are above it, too
        _op(_RETURN, _ERRNO | errno.ENOSYS),
        *_refuse_all(_NUMBERS, column, errno.EPERM),
        *_refuse_all(_ABSENT, column, errno.ENOSYS),
        *_refuse_all(_UNSUPPORTED, column, errno.EOPNOTSUPP),
    ]
    for entry, checks in _argument_checks(pid).items():
        ops += _check_call(int(entry.split()[1 + column]), checks)
    return b"".join([*ops, _op(_RETURN, _ALLOW)])


class _FilterProgram(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("ops", ctypes.c_char_p))


def refuse_calls() -> None:
    """Install the filter permanently, for this thread and the threads that it starts.

    Raises:
        OSError: the kernel refused it; `no_new_privs` must be set.
    """
    ops = filter_program(os.uname().machine, os.getpid())
    libc = ctypes.CDLL(None, use_errno=True)
    filter_mode, set_seccomp = 2, 22
    argument = ctypes.byref(_FilterProgram(len(ops) // 8, ops))
    if libc.prctl(set_seccomp, filter_mode, argument, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
