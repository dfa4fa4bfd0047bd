"""The `solward` command, mortal: it runs as ever until a file says at which point to die.

    python mortal.py /home/death server start --port 3001

The file holds `<point>:<nth>`, a phase of a cycle or a step of the money path; from when it is
there, the process is killed when it passes that point for the nth time. One process can so go on
from the death of the last and be killed itself.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from pathlib import Path

from solward.agents.phases import Phase
from solward.service import Solward
from solward.transactions.steps import Step


class Fate:
    """Reads the file at each point, and counts those it names."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.passed = 0

    def at_phase(self, _agent_id: str, phase: Phase) -> None:
        self.at(phase)

    def at(self, point: str) -> None:
        if not self.file.exists():
            return
        name, nth = self.file.read_text().split(":")
        self.passed += point == name
        if self.passed == int(nth):
            os.kill(os.getpid(), signal.SIGKILL)

    def at_step(self, step: Step) -> None:
        self.at(step)


def main() -> None:
    """Put the hooks in, then run the command as its console script would."""
    fate = Fate(Path(sys.argv[1]))
    Solward.open = functools.partial(  # type: ignore[method-assign]
        Solward.open, demo=True, step_hook=fate.at_step, phase_hook=fate.at_phase
    )
    from solward_cli import main as solward

    sys.argv = ["solward", *sys.argv[2:]]
    solward()


if __name__ == "__main__":
    main()
