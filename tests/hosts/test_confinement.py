"""What goes on working in a confined process, and what `available` says of machines."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.promises import promise
from tests.support.processes import USERS, answers_of, folder_of

from solward.hosts import confinement
from solward.hosts.confinement import Availability, landlock, seccomp

_WORKS = """
confine(Confinement(
    read=(READ,), write=(SCRATCH,), keep_fds=(2, output), open_files=32, file_bytes=1000
))
def in_thread():
    thread = threading.Thread(target=lambda: answers.update(inner=1))
    thread.start(); thread.join()
    return answers.pop("inner")
async def loop():
    reading, writing = socket.socketpair()
    reading.setblocking(False); writing.setblocking(False)
    running = asyncio.get_running_loop()
    await running.sock_sendall(writing, b"over a pair")
    got = await running.sock_recv(reading, 100)
    return [got.decode(), await asyncio.to_thread(lambda: "in a thread"), await asyncio.sleep(0, 1)]
def in_uvloop():
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(loop())
def imports():
    sys.path.append(READ)
    import of_a_plugin
    return of_a_plugin.VALUE
def write():
    with open(SCRATCH + "/a", "w") as file:
        file.write("written")
    os.rename(SCRATCH + "/a", SCRATCH + "/b")
    with open(SCRATCH + "/b") as file:
        text = file.read()
    os.remove(SCRATCH + "/b")
    return text
ask("thread", in_thread)
ask("asyncio", lambda: asyncio.run(loop()))
ask("uvloop", in_uvloop)
ask("imports", imports)
ask("scratch", write)
ask("time", lambda: time.strftime("%Z", time.localtime(0)))
ask("zone", lambda: zoneinfo.ZoneInfo("Europe/Berlin").utcoffset(None) is None)
ask("random", lambda: len(os.urandom(8)))
ask("locale", lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"))
ask("nothing", lambda: [open("/dev/null", "w").write("x"), os.isatty(0), os.read(0, 1) == b""])
ask("limit", lambda: __import__("resource").getrlimit(7))
ask("own signal", lambda: os.kill(os.getpid(), 0))
ask("group", lambda: os.getpgid(0) == os.getpid() == os.getsid(0))
"""


@promise("confined-plugins-still-work")
@pytest.mark.parametrize("user", USERS)
def test_threads_loops_imports_scratch_time_and_locale_work_in_a_confined_process(
    user: str,
) -> None:
    with folder_of(user) as read, folder_of(user) as scratch:
        (read / "of_a_plugin.py").write_text("VALUE = 'imported'")
        code = f"READ = {str(read)!r}; SCRATCH = {str(scratch)!r}\n{_WORKS}"
        looped = ["over a pair", "in a thread", 1]
        assert answers_of(user, code) == {
            "thread": 1,
            "asyncio": looped,
            "uvloop": looped,
            "imports": "imported",
            "scratch": "written",
            "time": "UTC",
            "zone": True,
            "random": 8,
            "locale": "C.UTF-8",
            "nothing": [1, False, True],
            "limit": [32, 32],
            "own signal": None,
            "group": True,
        }


def test_a_process_with_a_second_thread_is_not_confined() -> None:
    code = """
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
ask("confine", lambda: confine(Confinement(keep_fds=(2, output))))
ask("not confined", lambda: os.path.isdir("/") and bool(os.listdir("/")))
"""
    assert answers_of(USERS[0], code) == {
        "confine": "ConfinementUnavailable: a process with several threads cannot be confined",
        "not confined": True,
    }


@pytest.mark.parametrize("user", USERS)
def test_available_confines_a_child_and_not_the_process_that_asks(user: str) -> None:
    code = """
from solward.hosts.confinement import probe_confinement
ask("available", lambda: [probe_confinement().available, probe_confinement().reason])
ask("not confined", lambda: bool(os.listdir("/")) and socket.socket().close() is None)
"""
    assert answers_of(user, code) == {"available": [True, ""], "not confined": True}


@promise("no-confinement-no-host")
@pytest.mark.parametrize(
    ("abi", "reason"),
    [
        (-1, "Landlock is switched off: the kernel's parameter lsm= does not name it"),
        (-2, "a seccomp filter of the container or systemd unit refuses Landlock's system calls"),
        (0, "needs Landlock ABI 3 (Linux 6.2); this kernel or container has no Landlock"),
        (2, "needs Landlock ABI 3 (Linux 6.2); this kernel has ABI 2"),
    ],
)
def test_an_old_kernel_is_refused_with_the_reason(
    abi: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: abi)
    assert confinement.probe_confinement() == Availability(False, reason, abi)
    with pytest.raises(confinement.ConfinementUnavailable) as refused:
        confinement.confine(confinement.Confinement())
    assert str(refused.value) == reason


_UNDER_A_FILTER = """
import ctypes, errno, json, struct
from solward.hosts.confinement import landlock, probe_confinement
LOAD_NUMBER, IS, ANSWER = 0x20, 0x15, 0x06  # BPF: ld [abs], jeq, ret
program = struct.pack("HBBI", LOAD_NUMBER, 0, 0, 0)
for ahead, number in enumerate(landlock.CALLS.values()):
    program += struct.pack("HBBI", IS, len(landlock.CALLS) - ahead, 0, number)
program += struct.pack("HBBI", ANSWER, 0, 0, 0x7FFF0000)  # SECCOMP_RET_ALLOW
program += struct.pack("HBBI", ANSWER, 0, 0, 0x00050000 | errno.EPERM)  # SECCOMP_RET_ERRNO
kept = ctypes.create_string_buffer(program)
given = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, given, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
print(json.dumps([probe_confinement().available, probe_confinement().reason]))
"""


def test_a_filter_that_refuses_landlock_is_named_and_not_taken_for_an_old_kernel() -> None:
    """As systemd's SystemCallFilter and a container's profile do."""
    done = subprocess.run(
        [sys.executable, "-c", _UNDER_A_FILTER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    reason = "a seccomp filter of the container or systemd unit refuses Landlock's system calls"
    assert json.loads(done.stdout) == [False, reason]


@promise("no-confinement-no-host")
def test_a_step_that_does_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "refuse_calls", lambda: None)
    assert confinement.probe_confinement().reason == "a confined process could still make a socket"
    monkeypatch.setattr(landlock, "restrict_files", lambda *paths, abi: None)
    assert confinement.probe_confinement().reason == "a confined process could still open a folder"


def test_both_architectures_have_a_filter_and_theirs_differ() -> None:
    x86, arm = (seccomp.filter_program(machine, 1) for machine in ("x86_64", "aarch64"))
    assert x86 != arm
    assert all(len(ops) % 8 == 0 and len(ops) // 8 < 4096 for ops in (x86, arm))
    assert b"\x3e\x00\x00\xc0" in x86[:24]
    assert b"\xb7\x00\x00\xc0" in arm[:24]
