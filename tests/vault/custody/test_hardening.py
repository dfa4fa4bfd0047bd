"""What other processes of the same user can read of one that holds keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.processes import USERS, answers_of
from tests.support.repository import ROOT

ORDINARY = next(user for user in USERS if user != "root")
OWN_CODE = f"{ROOT}/framework:{ROOT}/plugins:{ROOT}/server"

# A child of the same user reads its parent, which is what any other program of that user can do.
_PROTECT = "from solward.support.hardening import protect_memory"
_READ_PARENT = """
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # changing the user made this process undumpable
secret = ctypes.create_string_buffer(b"the key")
def read(path, offset=0):
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        return file.read(7).decode(errors="replace") != ""
def mounted(attack):
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writing, str(attack()).encode())
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        os._exit(0)
    os.wait()
    return os.read(reading, 100).decode()
here, address = os.getpid(), ctypes.addressof(secret)
def attacks():
    return [
        mounted(lambda: read(f"/proc/{here}/environ")),
        mounted(lambda: read(f"/proc/{here}/mem", address)),
        mounted(lambda: os.listdir(f"/proc/{here}/fd") != []),
        mounted(lambda: ctypes.CDLL(None).ptrace(0x4206, here, 0, 0) == 0),
    ]
ask("before", attacks)
ask("protect", protect_memory)
ask("after", attacks)
ask("itself", lambda: [os.listdir("/proc/self/fd") != [], read("/proc/self/stat")])
ask("core", lambda: __import__("resource").getrlimit(4))
"""


@pytest.mark.more
@promise("key-process-unreadable")
def test_a_process_that_holds_keys_is_read_by_no_other_of_its_user() -> None:
    refused = "PermissionError"
    assert answers_of(ORDINARY, _READ_PARENT, imports=_PROTECT) == {
        "before": ["True", "True", "True", "True"],
        "protect": None,
        "after": [refused, refused, refused, "False"],
        "itself": [True, True],
        "core": [0, 0],
    }


@promise("key-process-unreadable")
@pytest.mark.parametrize(
    "start",
    [
        "async def work(): shown()\nentrypoint.run(work)",
        "entrypoint.keystore_settings(); shown()",
    ],
    ids=["a service", "a command that opens keys"],
)
def test_what_opens_keys_is_protected(start: str, tmp_path: Path) -> None:
    program = f"""
import ctypes, json, resource
from solward_cli import entrypoint
def shown():
    dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
    print(json.dumps([dumpable, resource.getrlimit(resource.RLIMIT_CORE)]))
{start}
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": OWN_CODE, "SOLWARD_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout or done.stderr) == [0, [0, 0]]
