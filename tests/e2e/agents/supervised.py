"""A service that dies many times: one supervisor, and a process of its own for each life."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from enum import StrEnum
from pathlib import Path

import httpx
from tests.support.processes import Service

# A life that goes on for longer does not pass the point that it was to die at.
LONGEST_LIFE_S = 120
KILLED_SERVICE = Path(__file__).with_name("killed_service.py")


class Supervised(Service):
    """A `Service` under `killed_service.py`; `stop` ends it and whatever lives under it."""

    def __init__(self, home: Path, **environment: str) -> None:
        super().__init__(home, **environment)
        self.fate = home.parent / "fate"
        self.life = 0

    def live(self) -> None:
        """Begin a life, and wait until it serves."""
        if self.process is None:
            arguments = [
                str(KILLED_SERVICE),
                str(self.fate),
                "server",
                "start",
                "--port",
                str(self.port),
            ]
            with (self.home.parent / "service.log").open("ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, *arguments],
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,  # a line behind the one that was read is seen by select
                    stderr=log,
                    cwd=self.home.parent,
                )
        else:
            assert self.process.stdin is not None
            self.process.stdin.write(b"live\n")
            self.process.stdin.flush()
        self.life = self._told()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError((self.home.parent / "service.log").read_text()[-4000:])

    def die(self, point: StrEnum, nth: int) -> None:
        """Have this life killed when it passes `point` for the nth time from now; wait for it."""
        self.order_death(point, nth)
        self.wait_for_death()

    def order_death(self, point: StrEnum, nth: int) -> None:
        """Have this life killed when it passes `point` for the nth time from now."""
        order = self.fate.with_suffix(".new")
        order.write_text(f"{point}:{nth}")
        order.rename(self.fate)

    def wait_for_death(self) -> None:
        """Wait for the death that was ordered."""
        assert self._told() == -signal.SIGKILL
        self.fate.unlink()

    def end(self) -> None:
        """End this life as an operator would."""
        os.kill(self.life, signal.SIGTERM)
        assert self._told() == 0

    def stop(self, with_signal: int = signal.SIGKILL) -> int:
        """End the supervisor."""
        ended = super().stop(with_signal)
        assert self.process is not None
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        return ended

    def _told(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        is_told, _, _ = select.select([self.process.stdout], [], [], LONGEST_LIFE_S)
        line = self.process.stdout.readline() if is_told else b""
        assert line, (self.home.parent / "service.log").read_text()[-4000:]
        return int(line)
