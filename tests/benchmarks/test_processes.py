"""Processor time and memory of processes, as benchmarks read them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchmarks import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Says when it has begun, and waits for the end of its input.
CHILD = "import sys, subprocess; print(flush=True); sys.stdin.read()"
PARENT = f"""
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE) as child:
    sys.stdin.read()
    child.stdin.close()
"""


@contextmanager
def running(source: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # The first line of whichever process says one.
        process.stdout.readline()
        yield process
        process.stdin.close()


def test_the_tree_of_a_process_is_itself_and_what_it_started() -> None:
    with running(PARENT) as process:
        found = processes.tree(process.pid)

    assert found[0] == process.pid
    assert len(found) == 2
    assert os.getpid() not in found


def test_memory_is_what_the_process_holds() -> None:
    holds = f"held = b'x' * {50 << 20}; {CHILD}"
    with running(CHILD) as little, running(holds) as much:
        of_little, of_much = map(processes.memory, (little.pid, much.pid))

    assert of_much.anonymous - of_little.anonymous > 49 << 20
    assert of_much.pss > of_much.anonymous > 0
    assert of_little.name.startswith("python")


def test_processor_time_is_what_the_process_used() -> None:
    began = processes.cpu_s(os.getpid())
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass

    assert processes.cpu_s(os.getpid()) - began >= 0.15


def test_a_thread_that_has_work_is_busy_and_one_that_waits_is_not() -> None:
    forever = "threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True)"
    works = f"import threading; {forever}.start(); {CHILD}"
    with running(works) as busy, running(CHILD) as waits:
        # It has said that it begins, and may not wait yet.
        deadline = time.monotonic() + 10
        while processes.busy_threads(waits.pid):
            assert time.monotonic() < deadline
        looks = [processes.busy_threads(busy.pid) for _ in range(20)]

    assert all(looks)


def test_a_process_that_is_gone_has_neither() -> None:
    with running(CHILD) as process:
        pass

    for read in (processes.cpu_s, processes.memory):
        with pytest.raises(OSError, match=str(process.pid)):
            read(process.pid)
    assert processes.busy_threads(process.pid) == 0
