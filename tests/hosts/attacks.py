"""Attacks by code that runs in a plugin host, and the program that mounts them.

`python -m tests.hosts.attacks` reads what to do from standard input as JSON: each attack runs in a
forked child, as the user named, confined or not, and the answers are printed as JSON. An attack
returns what it obtained; an error, or the end of its process, is a refusal.
"""

from __future__ import annotations

import ctypes
import dataclasses
import encodings.idna  # noqa: F401 - before the user changes, who may not read its file
import fcntl
import json
import mmap
import os
import pty
import resource
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from solward.hosts.confinement import Confinement, confine, seccomp

NOBODY = 65534
MIB = 1 << 20
Victim = dict[str, Any]
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def _numbers() -> Iterator[tuple[str, int]]:
    column = 2 if os.uname().machine == "aarch64" else 1
    tables = (seccomp._NUMBERS, seccomp._ABSENT, seccomp._UNSUPPORTED, *seccomp._argument_checks(0))
    for entry in ",".join(tables).replace("\n", ",").split(","):
        words = entry.split()
        if words and words[column] != "-":
            yield words[0], int(words[column])


NUMBERS = dict(_numbers())
CHECKED = {entry.split()[0] for entry in seccomp._argument_checks(0)}  # allowed with some arguments


def call(name: str, *arguments: int | bytes | ctypes.Array[Any]) -> int:
    """A system call by its number, past libc."""
    typed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer: int = _LIBC.syscall(ctypes.c_long(NUMBERS[name]), *typed)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def become(user: str) -> None:
    if user == "nobody":
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        bystander: there is another process, `victim["bystander"]`, of the same user.
        kills: it succeeded if that process has ended.
    """

    name: str
    mount: Callable[[Victim], object]
    bystander: bool = False
    kills: bool = False


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str, *, bystander: bool = False, kills: bool = False
) -> Callable[[Callable[[Victim], object]], Callable[[Victim], object]]:
    def known(mount: Callable[[Victim], object]) -> Callable[[Victim], object]:
        ATTACKS[name] = Attack(name, mount, bystander or kills, kills)
        return mount

    return known


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _answer(family: int, kind: int, address: Any) -> str:
    with socket.socket(family, kind) as caller:
        caller.settimeout(5)
        caller.connect(address)
        if kind == socket.SOCK_DGRAM:
            caller.send(b"?")
        return caller.recv(1000).decode()


# Files


@attack("keystore file")
def _(v: Victim) -> object:
    return _read(v["keystore"])


@attack("keystore file by a symbolic link")
def _(v: Victim) -> object:
    return _read(v["folder"] + "/scratch/planted")


@attack("keystore file by a hard link")
def _(v: Victim) -> object:
    os.link(v["keystore"], v["folder"] + "/scratch/linked")
    try:
        return _read(v["folder"] + "/scratch/linked")
    finally:
        os.remove(v["folder"] + "/scratch/linked")


@attack("keystore file by /proc/PID/cwd")
def _(v: Victim) -> object:
    return _read(f"/proc/{v['pid']}/cwd/keystore.json")


@attack("names in a hidden folder")
def _(v: Victim) -> object:
    return "keystore.json" in os.listdir(v["folder"] + "/home")


@attack("truncation of a file")
def _(v: Victim) -> object:
    os.truncate(v["folder"] + "/home/notes", 5)
    return True


@attack("mode of a file")
def _(v: Victim) -> object:
    os.chmod(v["folder"] + "/home/notes", 0o666)
    return True


@attack("times of a file")
def _(v: Victim) -> object:
    os.utime(v["folder"] + "/home/notes", (1, 1))
    return True


@attack("extended attribute of a file")
def _(v: Victim) -> object:
    return os.getxattr(v["folder"] + "/home/notes", "user.secret").decode()


@attack("watch on a folder (inotify)")
def _(v: Victim) -> object:
    watching = call("inotify_init1", 0)
    return call("inotify_add_watch", watching, (v["folder"] + "/home").encode(), 0xFFF) > 0


@attack(".pth file into site-packages")
def _(v: Victim) -> object:
    return _written(v["folder"] + "/site-packages/evil.pth", "import evil")


@attack("own package")
def _(v: Victim) -> object:
    return _written(v["folder"] + "/package/plugin.py", "# changed")


@attack("home folder")
def _(v: Victim) -> object:
    return _written(v["folder"] + "/home/.profile", "evil")


def _written(path: str, text: str) -> bool:
    with open(path, "w") as file:
        file.write(text)
    return True


@attack("core_pattern")
def _(v: Victim) -> object:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return True


@attack("stat of a hidden file")
def _(v: Victim) -> object:
    return os.stat(v["keystore"]).st_size == v["length"]


# Scratch


@attack("fifo planted in scratch")
def _(v: Victim) -> object:
    os.mkfifo(v["folder"] + "/scratch/fifo")
    os.remove(v["folder"] + "/scratch/fifo")
    return True


@attack("symbolic link planted in scratch")
def _(v: Victim) -> object:
    os.symlink("/etc", v["folder"] + "/scratch/symlink")
    os.remove(v["folder"] + "/scratch/symlink")
    return True


@attack("device in scratch")
def _(v: Victim) -> object:
    os.mknod(v["folder"] + "/scratch/device", 0o20600, os.makedev(1, 3))
    os.remove(v["folder"] + "/scratch/device")
    return True


@attack("one file of 200 MB")
def _(v: Victim) -> object:
    return _grown(v, 200 * MIB, lambda fd, size: os.ftruncate(fd, size))


@attack("one file of 200 MB past its size (fallocate)")
def _(v: Victim) -> object:
    def keep_size(fd: int, size: int) -> None:
        call("fallocate", fd, 1, 0, size)

    return _grown(v, 200 * MIB, keep_size)


@attack("ten files of 30 MB")
def _(v: Victim) -> object:
    return all([_grown(v, 30 * MIB, lambda fd, size: os.posix_fallocate(fd, 0, size))] * 10)


def _grown(v: Victim, size: int, grow: Callable[[int, int], None]) -> bool:
    path = v["folder"] + "/scratch/large"
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        grow(fd, size)
    finally:
        os.close(fd)
        os.remove(path)
    return True


# Other processes


@attack("/proc/PID/environ")
def _(v: Victim) -> object:
    return v["variable"] in _read(f"/proc/{v['pid']}/environ")


@attack("/proc/PID/mem")
def _(v: Victim) -> object:
    with open(f"/proc/{v['pid']}/mem", "rb", buffering=0) as memory:
        memory.seek(v["address"])
        return memory.read(v["length"]).decode()


@attack("process_vm_readv")
def _(v: Victim) -> object:
    buffer = ctypes.create_string_buffer(v["length"])
    local = struct.pack("=QQ", ctypes.addressof(buffer), v["length"])
    remote = struct.pack("=QQ", v["address"], v["length"])
    call("process_vm_readv", v["pid"], local, 1, remote, 1, 0)
    return buffer.raw.decode()


@attack("ptrace")
def _(v: Victim) -> object:
    seize = 0x4206
    return call("ptrace", seize, v["pid"], 0, 0) == 0


@attack("descriptor of another process (pidfd_getfd)")
def _(v: Victim) -> object:
    fd = call("pidfd_getfd", call("pidfd_open", v["pid"], 0), v["keystore_fd"], 0)
    return os.pread(fd, 1000, 0).decode()


@attack("signal", kills=True)
def _(v: Victim) -> object:
    return os.kill(v["bystander"], signal.SIGTERM) is None


@attack("signal to a thread (tgkill)", kills=True)
def _(v: Victim) -> object:
    return call("tgkill", v["bystander"], v["bystander"], signal.SIGTERM) == 0


@attack("signal by pidfd", kills=True)
def _(v: Victim) -> object:
    return call("pidfd_send_signal", call("pidfd_open", v["bystander"], 0), 15, 0, 0) == 0


@attack("signal by an owner of a descriptor (F_SETOWN)", kills=True)
def _(v: Victim) -> object:
    ours, other = socket.socketpair()
    fcntl.fcntl(ours, fcntl.F_SETOWN, v["bystander"])
    fcntl.fcntl(ours, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
    return other.send(b"!") == 1


@attack("signal by an owner of a socket (FIOSETOWN)", kills=True)
def _(v: Victim) -> object:
    ours, other = socket.socketpair()
    fcntl.ioctl(ours, 0x8901, struct.pack("=i", v["bystander"]))
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)  # SIGIO ends a process that does not expect it
    return other.send(b"!") == 1


@attack("SIGSTOP")
def _(v: Victim) -> object:
    os.kill(v["pid"], signal.SIGSTOP)
    os.kill(v["pid"], signal.SIGCONT)
    return True


@attack("priority of another process", bystander=True)
def _(v: Victim) -> object:
    os.setpriority(os.PRIO_PROCESS, v["bystander"], 19)
    return True


@attack("processors of another process", bystander=True)
def _(v: Victim) -> object:
    os.sched_setaffinity(v["bystander"], {0})
    return True


@attack("limits of another process", bystander=True)
def _(v: Victim) -> object:
    resource.prlimit(v["bystander"], resource.RLIMIT_NOFILE, (3, 3))
    return True


# Network and sockets


@attack("loopback REST port")
def _(v: Victim) -> object:
    return _answer(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", v["rest"]))


@attack("abstract Unix socket")
def _(v: Victim) -> object:
    return _answer(socket.AF_UNIX, socket.SOCK_STREAM, v["abstract"])


@attack("named Unix socket")
def _(v: Victim) -> object:
    return _answer(socket.AF_UNIX, socket.SOCK_STREAM, v["named"])


@attack("named Unix socket by a datagram pair")
def _(v: Victim) -> object:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return ours.sendto(b"!", v["log"]) == 1


@attack("UDP")
def _(v: Victim) -> object:
    return _answer(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", v["udp"]))


@attack("DNS")
def _(v: Victim) -> object:
    return bool(socket.getaddrinfo("localhost", 80))


@attack("listening")
def _(v: Victim) -> object:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        return bool(listening.getsockname()[1])


@attack("netlink")
def _(v: Victim) -> object:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as netlink:
        netlink.bind((0, 0))
        return bool(netlink.getsockname()[0])


# What a process inherits


@attack("inherited descriptor")
def _(v: Victim) -> object:
    return os.pread(v["inherited"], 1000, 0).decode()


@attack("secret variables")
def _(v: Victim) -> object:
    return v["variable"] in os.environ.values()


@attack("TIOCSTI on a terminal")
def _(v: Victim) -> object:
    fcntl.ioctl(v["terminal"], termios.TIOCSTI, b"!")
    return bool(select.select([v["terminal"]], [], [], 1)[0])


# New processes, memory, limits


@attack("fork bomb")
def _(v: Victim) -> object:
    reading, _ = os.pipe()
    children = []
    try:
        for _ in range(50):
            children.append(os.fork())
            if not children[-1]:
                os.read(reading, 1)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
    return len(children) == 50


@attack("a single fork")
def _(v: Victim) -> object:
    return _forked(os.fork())


@attack("clone")
def _(v: Victim) -> object:
    return _forked(call("clone", signal.SIGCHLD, 0, 0, 0, 0))


@attack("clone3")
def _(v: Victim) -> object:
    arguments = struct.pack("=8Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return _forked(call("clone3", arguments, len(arguments)))


def _forked(pid: int) -> bool:
    if not pid:
        os._exit(0)
    return os.waitpid(pid, 0)[0] == pid


@attack("exec")
def _(v: Victim) -> object:
    os.execv("/bin/echo", ["echo", '{"got": true}'])


@attack("posix_spawn")
def _(v: Victim) -> object:
    return _forked(os.posix_spawn("/bin/true", ["true"], {}))


@attack("2 GB of memory")
def _(v: Victim) -> object:
    return len(mmap.mmap(-1, 2 << 30)) == 2 << 30


@attack("memory that no limit counts (memfd)")
def _(v: Victim) -> object:
    return os.write(call("memfd_create", b"", 0), bytes(MIB)) == MIB


@attack("400 threads")
def _(v: Victim) -> object:
    release = threading.Event()
    started = 0
    try:
        for _ in range(400):
            threading.Thread(target=release.wait, daemon=True).start()
            started += 1
    finally:
        release.set()
    return started == 400


@attack("1,000 threads of 4 KB, past libc's limits")
def _(v: Victim) -> object:
    thread = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000  # VM, FS, FILES, SIGHAND, THREAD
    stacks = ctypes.create_string_buffer(1001 * 4096)
    _LIBC.clone.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    waiting = ctypes.cast(_LIBC.pthread_mutex_lock, ctypes.c_void_p)
    locked = ctypes.create_string_buffer(64)
    _LIBC.pthread_mutex_lock(locked)
    top = (ctypes.addressof(stacks) + 4096) & ~15
    v["used"] = stacks, locked  # by the threads, beyond this call
    return all(_LIBC.clone(waiting, top + 4096 * n, thread, locked) > 0 for n in range(1, 1000))


@attack("its own limits raised")
def _(v: Victim) -> object:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return True


@attack("its end with its parent (PDEATHSIG) taken back")
def _(v: Victim) -> object:
    return _prctl(1, 0)


@attack("dumpable again")
def _(v: Victim) -> object:
    return _prctl(4, 1)


def _prctl(option: int, value: int) -> bool:
    return call("prctl", option, value, 0, 0, 0) == 0


# Kernel


@attack("user namespace")
def _(v: Victim) -> object:
    return call("unshare", 0x10000000) == 0


@attack("mount")
def _(v: Victim) -> object:
    call("unshare", 0x10000000 | 0x20000)  # a user and a mount namespace
    none, root = b"none\0", b"/\0"
    call("mount", none, root, 0, 1 << 14 | 1 << 18, 0)  # private, recursive
    return call("mount", none, (v["folder"] + "/scratch").encode(), b"tmpfs\0", 0, 0) == 0


@attack("chroot")
def _(v: Victim) -> object:
    os.chroot(v["folder"])
    return True


@attack("io_uring")
def _(v: Victim) -> object:
    return call("io_uring_setup", 4, ctypes.create_string_buffer(200)) >= 0


@attack("key of the kernel's keyring")
def _(v: Victim) -> object:
    buffer = ctypes.create_string_buffer(v["length"])
    call("keyctl", 11, v["key"], buffer, v["length"])
    return buffer.raw.decode()


@attack("System V shared memory")
def _(v: Victim) -> object:
    return ctypes.string_at(call("shmat", v["shared"], 0, 0o10000)).decode()


@attack("System V queue")
def _(v: Victim) -> object:
    return call("msgctl", call("msgget", 0, 0o600), 0, 0) == 0


@attack("POSIX queue")
def _(v: Victim) -> object:
    call("mq_open", b"solward-attack", os.O_CREAT | os.O_RDWR, 0o600, 0)
    return call("mq_unlink", b"solward-attack") == 0


@attack("bpf")
def _(v: Victim) -> object:
    array = struct.pack("=4I", 2, 4, 4, 1)
    return call("bpf", 0, array, len(array)) >= 0


@attack("performance counter")
def _(v: Victim) -> object:
    user_space_only = 1 << 5 | 1 << 6
    what = struct.pack("=IIQQQQQ", 1, 112, 0, 0, 0, 0, user_space_only).ljust(112, b"\0")
    return call("perf_event_open", what, 0, -1, -1, 0) >= 0


@attack("userfaultfd")
def _(v: Victim) -> object:
    return call("userfaultfd", 1) >= 0


@attack("personality")
def _(v: Victim) -> object:
    return call("personality", 0x0040000) >= 0  # addresses without randomness


@attack("calls by 32-bit numbers")
def _(v: Victim) -> object:
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")  # x86: mov eax, 20 (getpid); int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return function() == os.getpid()


@attack("mode of a file by a call newer than the table (fchmodat2)")
def _(v: Victim) -> object:
    path = (v["folder"] + "/home/notes").encode()
    if _LIBC.syscall(ctypes.c_long(452), -100, path, 0o666, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def refusals_of_numbers() -> dict[str, str]:
    """What each call that is always refused answers, in a confined process.

    The arguments are invalid, and nothing is called where there is no filter: some of these calls,
    as root, would change the machine that runs the tests.
    """
    get_seccomp, filtered = 21, 2
    assert _LIBC.prctl(get_seccomp, 0, 0, 0, 0) == filtered
    answers = {}
    for name in sorted(NUMBERS.keys() - CHECKED - {"fork", "vfork"}):
        try:
            answers[name] = str(call(name, -1, -1, -1, -1, -1, -1))
        except OSError as error:
            answers[name] = type(error).__name__ if error.errno == 1 else str(error.errno)
    return answers


def _bystander(user: str) -> int:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        become(user)
        os.write(writing, b".")
        signal.pause()
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return pid


def _terminal() -> tuple[int, int]:
    """A terminal that controls this process, which leads a session; and its other end."""
    os.setsid()
    other, terminal = pty.openpty()
    os.set_inheritable(other, True)  # closed, it would end this process
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    flags = termios.tcgetattr(terminal)
    flags[3] &= ~termios.ICANON  # so that one character can be read
    termios.tcsetattr(terminal, termios.TCSANOW, flags)
    return terminal, other


def _child(asked: dict[str, Any], mount: Callable[[Victim], object], out: int) -> None:
    """One attack in this process, confined as asked; it does not return."""
    os.dup2(out, 1)
    v: Victim = asked["victim"]
    v["terminal"], other = _terminal()
    become(asked["user"])
    folder = v["folder"]
    try:
        if asked["confined"]:
            confine(
                Confinement(
                    read=(f"{folder}/package",),
                    write=(f"{folder}/scratch",),
                    keep_fds=(1, v["terminal"], other),
                    file_bytes=32 * MIB,
                ),
                abi=asked["abi"],
            )
    except BaseException as error:
        os.write(1, json.dumps({"failed": repr(error)}).encode())
        os._exit(1)
    try:
        answer = {"got": mount(v)}
    except BaseException as error:
        answer = {"refused": f"{type(error).__name__}: {error}"}
    os.write(1, json.dumps(answer).encode())
    os._exit(0)


def _mounted(asked: dict[str, Any], mounting: Attack) -> dict[str, Any]:
    bystander = _bystander(asked["user"]) if mounting.bystander else None
    asked["victim"]["bystander"] = bystander
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _child(asked, mounting.mount, writing)
    os.close(writing)
    try:
        ready = select.select([reading], [], [], 20)[0]
        text = os.read(reading, 65536) if ready else b""
        if not ready:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(reading)
        status = os.waitpid(pid, 0)[1]
    killed = {"refused": f"ended by signal {os.WTERMSIG(status)}" if status & 127 else "no answer"}
    answer: dict[str, Any] = json.loads(text) if text else killed
    if bystander is None:
        return answer
    if mounting.kills and "got" in answer:
        until = time.monotonic() + 5
        while (ended := os.waitpid(bystander, os.WNOHANG)[0]) == 0 and time.monotonic() < until:
            time.sleep(0.001)
        if ended:
            return {"got": True}
        answer = {"refused": "the other process goes on"}
    os.kill(bystander, signal.SIGKILL)
    os.waitpid(bystander, 0)
    return answer


def main() -> None:
    asked = json.load(sys.stdin)
    asked["victim"]["inherited"] = os.open(asked["victim"]["keystore"], os.O_RDONLY)
    answers = {name: _mounted(asked, each) for name, each in ATTACKS.items()}
    if asked["confined"]:
        every = Attack("numbers", lambda v: refusals_of_numbers())
        answers["numbers"] = _mounted(asked, every)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
