"""A real `solward localnet` process on free ports."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class LocalnetProcess:
    """A running process; `http` and `ws` are where it listens."""

    process: "subprocess.Popen[str]"
    http: str
    ws: str

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(20)


@contextlib.contextmanager
def localnet_process(ledger: Path, *options: str) -> Iterator[LocalnetProcess]:
    """Start the process on `ledger` and free ports; killed at the end where it still runs."""
    command = [sys.executable, "-m", "solward_cli.localnet", "--ledger", str(ledger)]
    process = subprocess.Popen(
        [*command, "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        found = re.findall(r"(?:http|ws)://\S+", "".join(lines))
        assert len(found) == 2, f"the process did not say where it listens: {lines}"
        yield LocalnetProcess(process, *found)
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()
