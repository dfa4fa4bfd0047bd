"""The programs of examples/, run as their readers run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.localnet import localnet_process
from tests.support.processes import SECRET
from tests.support.repository import ROOT

EXAMPLES = ROOT / "examples"


def run(program: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.more
def test_solana_py_speaks_to_the_localnet(tmp_path: Path) -> None:
    source = (EXAMPLES / "localnet_client" / "airdrop.py").read_text()
    with localnet_process(tmp_path / "localnet.db", "--slot-ms", "50") as node:
        program = tmp_path / "airdrop.py"
        program.write_text(source.replace("http://127.0.0.1:8899", node.http))
        assert run(program) == "1000000000\n"


@pytest.mark.more
def test_the_python_client_pays_and_is_refused(services: Any) -> None:
    told = run(
        EXAMPLES / "python_client" / "pay.py",
        SOLWARD_API_URL=services().start().url,
        SOLWARD_API_KEY=SECRET,
    )
    paid, refused, left = told.splitlines()
    assert re.fullmatch(r"confirmed [1-9A-HJ-NP-Za-km-z]{80,90}", paid)
    assert refused.startswith("Transaction blocked by guardrail max_per_tx: 5 SOL is more than")
    assert left == "1.749995 SOL left"
