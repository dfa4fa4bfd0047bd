"""Processes that confine themselves, as root and as an ordinary user, for tests of confinement."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.repository import ROOT

NOBODY = 65534
# An ordinary user's machine tests that user alone; CI and containers test both.
USERS = ("root", "nobody") if os.geteuid() == 0 else ("own",)

# Imported before the user changes: nobody may not read an interpreter in root's home.
_PROGRAM = """
import asyncio, ctypes, json, locale, os, socket, sys, threading, time, uvloop, zoneinfo
from solward.hosts.confinement import Confinement, ConfinementUnavailable, confine
{imports}
if {user!r} == "nobody":
    os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
output = os.dup(1)
answers = {{}}
def ask(name, question):
    try:
        answers[name] = question()
    except BaseException as error:
        answers[name] = f"{{type(error).__name__}}: {{error}}"
{code}
os.write(output, json.dumps(answers, default=str).encode())
"""


@contextmanager
def folder_of(user: str) -> Iterator[Path]:
    """A folder that this user owns and everybody may read."""
    folder = Path(tempfile.mkdtemp(prefix="solward-confined-"))
    try:
        folder.chmod(0o755)
        if user == "nobody":
            os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)


def answers_of(user: str, code: str, imports: str = "") -> dict[str, Any]:
    """Run code that calls `ask(name, question)`; an error is its class and text."""
    program = _PROGRAM.format(user=user, nobody=NOBODY, code=code, imports=imports)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "framework")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers
