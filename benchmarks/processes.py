"""What a process and its children take: processor time and memory, as `/proc` has them."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one process, in bytes.

    Attributes:
        pss: its own pages, and of each that is shared its part; all processes' add up.
        anonymous: of them what is in no file.
    """

    pid: int
    name: str
    pss: int
    anonymous: int


def tree(pid: int) -> list[int]:
    """The process and its descendants that run, the process first."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                children[int(_status(int(folder.name))[1])].append(int(folder.name))
            except OSError:
                continue  # it is gone meanwhile
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += children[found[-1]]
    return found


def cpu_s(pid: int) -> float:
    """The processor time of a process that runs, in user and system mode, in seconds.

    Raises:
        OSError: it is gone.
    """
    fields = _status(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS


def busy_threads(pid: int) -> int:
    """Threads of a process that run, or wait for a processor or a disk; 0 where it is gone.

    On a busy machine a process that has work uses little of a processor, but wants one always.
    """
    states = []
    for stat in (_PROC / str(pid) / "task").glob("*/stat"):
        with contextlib.suppress(OSError):
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return sum(state in "RD" for state in states)


def memory(pid: int) -> Memory:
    """The memory of a process that runs.

    Raises:
        OSError: it is gone, or belongs to another user. A service's processes are closed to their
            own user too; only root reads them.
    """
    kib = {}
    for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        kib[name] = int(value.split()[0])
    name = (_PROC / str(pid) / "comm").read_text().strip()
    return Memory(pid, name, kib["Pss"] * 1024, kib["Pss_Anon"] * 1024)


def _status(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` from the state on; the name before may hold anything."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
