"""The `solward` command under a supervisor that starts it anew after each death, when told to.

    python killed_service.py /home/fate server start --port 3001

The file `fate` holds `<point>:<nth>`, a phase of a cycle or of a schedule's run, or a step of the
money path; from when it is there, the command is killed when it passes that point for the nth time.
So one life can first go on from the death before it, and then end in its own.

Each life is a process of its own, forked before anything is opened: what hundreds of deaths need
not pay for again is importing the same modules. The supervisor writes each life's process id, and
how it ended, and waits for a line before the next.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import signal
import sys
from pathlib import Path

import solward_cli
from solward.agents.cycle import Phase
from solward.plugins import load_registry
from solward.schedules.runs import SchedulePhase
from solward.service.service import Solward
from solward.vault.money.steps import Step

_PR_SET_PDEATHSIG = 1


class Fate:
    """Reads the file at each point, and counts those it names."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.passed = 0

    def at_phase(self, _id: str, phase: Phase | SchedulePhase) -> None:
        self.at(phase)

    def at_step(self, step: Step) -> None:
        self.at(step)

    def at(self, point: str) -> None:
        if not self.file.exists():
            return
        name, nth = self.file.read_text().split(":")
        self.passed += point == name
        if self.passed == int(nth):
            os.kill(os.getpid(), signal.SIGKILL)


def live(fate: Fate, arguments: list[str]) -> None:
    """Put the hooks in, then run the command as its console script would."""
    # No life outlives the supervisor, which a test may kill.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    Solward.open = functools.partial(  # type: ignore[method-assign]
        Solward.open,
        demo=True,
        step_hook=fate.at_step,
        phase_hook=fate.at_phase,
        schedule_hook=fate.at_phase,
    )
    sys.argv = ["solward", *arguments]
    solward_cli.main()


def main() -> None:
    """Live, and again with every line of the standard input."""
    load_registry(("*",), demo=True)
    for module in (
        "solward_cli.server",
        "solward_cli.entrypoint",
        "solward_server.serve",
        "uvloop",
    ):
        importlib.import_module(module)
    while True:
        life = os.fork()
        if life == 0:
            live(Fate(Path(sys.argv[1])), sys.argv[2:])
            sys.exit()
        print(life, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(life, 0)[1]), flush=True)
        if not sys.stdin.readline():
            return


if __name__ == "__main__":
    main()
