"""Where cycles run is decided by the database, and one machine pays nothing for many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
import solward_cli.server, solward_server.serve
from solward.service.service import Solward
from solward.settings import Settings

async def main():
    async with Solward.open(Settings(_env_file=None, solward_home=Path(sys.argv[1]))) as service:
        print(json.dumps([type(service.agents._placement).__name__, sorted(sys.modules)]))

asyncio.run(main())
"""


@pytest.mark.more
@pytest.mark.sqlite("what is not imported with it")
def test_on_sqlite_cycles_run_here_and_nothing_of_postgresql_is_imported(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "home")],
        env={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    placement, modules = json.loads(ended.stdout)
    assert placement == "EmbeddedPlacement"
    roots = {name.partition(".")[0] for name in modules}
    assert not roots & {"procrastinate", "psycopg", "psycopg_pool", "opentelemetry"}
