"""A test that hangs costs a run its own time, whatever swallows the alarm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HANGING = """\
import asyncio
import time

import pytest

pytestmark = pytest.mark.timeout(1)


@pytest.fixture
async def never():
    never = asyncio.Event()
    yield never
    await never.wait()


async def test_one_whose_fixture_hangs_too(never):
    await never.wait()


async def test_one_whose_loop_swallows_the_alarm():
    asyncio.get_running_loop().call_soon(time.sleep, 2)
    await asyncio.Event().wait()


def test_what_comes_after():
    pass
"""


@pytest.mark.more
def test_a_hanging_test_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING)
    options = "-q -n 0 -p tests.support.clock -o asyncio_mode=auto --rootdir"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), tmp_path, tmp_path],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "2 failed, 1 passed, 1 error in" in done.stdout, done.stdout + done.stderr
