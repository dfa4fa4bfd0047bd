"""43 attacks on a service by code that runs in a plugin host, and those found since.

Each runs in a process that is really confined, and is refused; it runs unconfined as well, and
succeeds, so that a refusal is the confinement's doing. Both as root and as an ordinary user, whose
processes the service and the attacker are. An attack of root is refused to ordinary users anyway.
The last column is what refuses it first; three lines stay open.

| # | attack | of | refused by |
|---|---|---|---|
| 1 | keystore file | all | Landlock |
| 2 | keystore file by a symbolic link | all | Landlock |
| 3 | keystore file by a hard link | all | filter |
| 4 | keystore file by /proc/PID/cwd | all | Landlock |
| 5 | /proc/PID/environ | all | Landlock |
| 6 | /proc/PID/mem | all | Landlock |
| 7 | process_vm_readv | all | filter |
| 8 | ptrace | all | filter |
| 9 | signal | all | filter |
| 10 | SIGSTOP | all | filter |
| 11 | signal by pidfd | all | filter |
| 12 | loopback REST port | all | filter |
| 13 | abstract Unix socket | all | filter |
| 14 | named Unix socket | all | filter |
| 15 | UDP | all | filter |
| 16 | DNS | all | filter |
| 17 | listening | all | filter |
| 18 | netlink | all | filter |
| 19 | inherited descriptor | all | closing |
| 20 | secret variables | all | environment |
| 21 | fork bomb | all | filter |
| 22 | a single fork | all | filter |
| 23 | clone | all | filter |
| 24 | clone3 | all | filter |
| 25 | 2 GB of memory | all | limit |
| 26 | exec | all | filter |
| 27 | posix_spawn | all | filter |
| 28 | user namespace | all | filter |
| 29 | io_uring | all | filter |
| 30 | key of the kernel's keyring | all | filter |
| 31 | System V shared memory | all | filter |
| 32 | System V queue | all | filter |
| 33 | .pth file into site-packages | all | Landlock |
| 34 | own package | all | Landlock |
| 35 | home folder | all | Landlock |
| 36 | fifo planted in scratch | all | filter |
| 37 | symbolic link planted in scratch | all | filter |
| 38 | one file of 200 MB | all | limit |
| 39 | ten files of 30 MB | all | open |
| 40 | stat of a hidden file | all | open |
| 41 | core_pattern | root | Landlock |
| 42 | TIOCSTI on a terminal | all | filter |
| 43 | 400 threads | all | limit |
| 44 | 1,000 threads of 4 KB, past libc's limits | all | open |
| 45 | names in a hidden folder | all | Landlock |
| 46 | truncation of a file | all | Landlock |
| 47 | mode of a file | all | filter |
| 48 | times of a file | all | filter |
| 49 | extended attribute of a file | all | filter |
| 50 | watch on a folder (inotify) | all | filter |
| 51 | device in scratch | root | filter |
| 52 | one file of 200 MB past its size (fallocate) | all | filter |
| 53 | descriptor of another process (pidfd_getfd) | all | filter |
| 54 | signal to a thread (tgkill) | all | filter |
| 55 | signal by an owner of a descriptor (F_SETOWN) | all | filter |
| 56 | signal by an owner of a socket (FIOSETOWN) | all | filter |
| 57 | priority of another process | all | filter |
| 58 | processors of another process | all | filter |
| 59 | limits of another process | all | filter |
| 60 | named Unix socket by a datagram pair | all | filter |
| 61 | memory that no limit counts (memfd) | all | filter |
| 62 | its own limits raised | all | filter |
| 63 | its end with its parent (PDEATHSIG) taken back | all | filter |
| 64 | dumpable again | all | filter |
| 65 | mount | all | filter |
| 66 | chroot | root | filter |
| 67 | POSIX queue | all | filter |
| 68 | bpf | root | filter |
| 69 | performance counter | all | filter |
| 70 | userfaultfd | all | filter |
| 71 | personality | all | filter |
| 72 | calls by 32-bit numbers | all | filter |
| 73 | mode of a file by a call newer than the table (fchmodat2) | all | filter |

Open: whether a path exists cannot be hidden from code that imports. What a scratch folder holds in
all and how many threads there are is watched by whoever starts the process
(`test_supervisor.py::test_scratch_is_limited`, `test_supervisor.py::test_threads_are_limited`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from typing import Any, NamedTuple

import pytest
from tests.hosts.attacks import ATTACKS, CHECKED, NUMBERS
from tests.promises import promise
from tests.support.processes import USERS, folder_of
from tests.support.repository import ROOT

pytestmark = promise("host-confines-itself-first")


SECRET = "5JueXZhZ-the-key-of-a-wallet"
VARIABLE = "sk-live-the-key-of-a-vendor"
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT}/framework"}
PYTHON = (sys.executable, "-W", "ignore")


class Line(NamedTuple):
    name: str
    users: str
    refused_by: str


LINES = [
    Line(*line)
    for line in re.findall(r"^\| \d+ \| (.+) \| (all|root) \| (\w+) \|", __doc__ or "", re.M)
]
# What each refusal looks like to the attacker.
REFUSAL = {
    "Landlock": r"PermissionError: \[Errno 13\]",
    "filter": r"PermissionError: \[Errno 1\]|OSError: \[Errno (38|95)\]|gaierror|ended by signal 31"
    "|ValueError: not allowed",
    "limit": r"OSError: \[Errno (12|27)\]|MemoryError|RuntimeError: can't start new thread",
    "closing": r"OSError: \[Errno 9\]",
}


@cache
def answers(user: str, confined: bool, abi: int | None = None) -> dict[str, dict[str, Any]]:
    """What every attack obtained or was refused; the victim is a process of the same user."""
    with folder_of(user) as folder:
        service = subprocess.Popen(
            [*PYTHON, "-m", "tests.hosts.victim", user, str(folder), SECRET],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT | {"VENDOR_KEY": VARIABLE},
            cwd=ROOT,
        )
        with service:
            assert service.stdin
            assert service.stdout
            victim = json.loads(service.stdout.readline()) | {"variable": VARIABLE}
            asked = {"victim": victim, "user": user, "confined": confined, "abi": abi}
            done = subprocess.run(
                [*PYTHON, "-m", "tests.hosts.attacks"],
                input=json.dumps(asked),
                capture_output=True,
                text=True,
                env=ENVIRONMENT | ({} if confined else {"VENDOR_KEY": VARIABLE}),
                cwd=ROOT,
                timeout=60,
                check=False,
            )
            service.stdin.close()
        assert service.returncode == 0
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def obtained(answer: dict[str, Any]) -> bool:
    return answer.get("got") in (True, SECRET)


def refused(line: Line, answer: dict[str, Any]) -> bool:
    if line.refused_by == "environment":
        return answer == {"got": False}
    return bool(re.match(REFUSAL[line.refused_by], answer.get("refused", "")))


@promise("attacks-work-unconfined")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_an_attack_succeeds_and_is_refused_to_a_confined_process(line: Line, user: str) -> None:
    if line.name == "calls by 32-bit numbers" and os.uname().machine != "x86_64":
        pytest.skip("only x86-64 has them")
    free = answers(user, confined=False)[line.name]
    assert obtained(free) == (line.users == "all" or user == "root"), free
    held = answers(user, confined=True)[line.name]
    if line.refused_by == "open":
        assert obtained(held), held
    else:
        assert refused(line, held), held


@promise("filtered-calls-refused")
@pytest.mark.parametrize("user", USERS)
def test_every_call_of_the_table_is_refused(user: str) -> None:
    given = answers(user, confined=True)["numbers"]["got"]
    assert given.keys() == NUMBERS.keys() - CHECKED - {"fork", "vfork"}
    assert {*given.values()} == {"PermissionError", "38", "95"}


@promise("first-landlock-suffices")
@pytest.mark.more
@pytest.mark.parametrize("user", USERS)
def test_the_first_landlock_that_suffices_refuses_the_same(user: str) -> None:
    held = answers(user, confined=True, abi=3)
    lines = [line for line in LINES if line.refused_by != "open"]
    assert [line.name for line in lines if not refused(line, held[line.name])] == []


def test_the_table_is_of_every_attack() -> None:
    rows = re.findall(r"^\| (\d+) \|", __doc__ or "", re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, len(ATTACKS) + 1))
    assert {line.name for line in LINES} == {*ATTACKS}
