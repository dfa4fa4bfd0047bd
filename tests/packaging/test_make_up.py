"""`make up` passes on what it is given."""

from __future__ import annotations

import subprocess

from tests.support.repository import ROOT


def test_options_of_up_reach_it() -> None:
    # The suite is started by a make itself, which would say that it enters and leaves folders.
    command = ["make", "--no-print-directory", "--dry-run", "up", "OPTIONS=--reset --rpc-port 0"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    last = told.stdout.splitlines()[-1]
    assert last.strip() == ".venv/bin/solward up --demo --reset --rpc-port 0"
