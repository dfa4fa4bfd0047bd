"""The command in a process of its own, read until it says it is up."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from tests.support import databases

from solward.settings.access import DEVELOPMENT_SECRET


def command(home: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "solward_cli", *arguments],
        "env": {"PATH": os.environ["PATH"], "SOLWARD_HOME": str(home)}
        | databases.database_of(home)
        | environment,
        "cwd": home.parent,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


@contextlib.contextmanager
def running(
    home: Path, *arguments: str, last: str = "Try:", **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process once it has printed the line that starts with `last`, and what it printed."""
    process = subprocess.Popen(**command(home, *arguments, **environment))
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(last):
                break
        else:
            raise AssertionError(process.stderr.read())
        yield process, "".join(lines)
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()
        process.stderr.close()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Signal it and wait for a clean end; its last output."""
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    return out


def client(screen: str) -> httpx.Client:
    found = re.search(r"^API: +(\S+)", screen, re.M)
    assert found is not None
    headers = {"Authorization": f"Bearer {DEVELOPMENT_SECRET}"}
    return httpx.Client(base_url=found[1], headers=headers, timeout=30)
