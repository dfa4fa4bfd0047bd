"""SOLWARD_HOME: private, and one process's at a time."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from solward.settings.home import Home
from solward.types.errors import ConfigError, HomeLocked

HOLD = """
import sys, time
from pathlib import Path
from solward.settings.home import Home
with Home.opened(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "home"
    with Home.opened(path) as home:
        assert home.path == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_folder_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with Home.opened(tmp_path):
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_second_process_is_refused_with_path_and_owner_until_the_first_is_killed(
    tmp_path: Path,
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HomeLocked) as caught, Home.opened(tmp_path):
            pass
        assert str(tmp_path) in str(caught.value)
        assert f"process {holder.pid}" in str(caught.value)
    finally:
        holder.send_signal(signal.SIGKILL)
        with holder:
            pass
    with Home.opened(tmp_path):
        pass


def test_the_lock_is_free_again_after_the_block_even_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Home.opened(tmp_path):
        _ = 1 / 0
    with Home.opened(tmp_path):
        assert (tmp_path / "solward.lock").read_text() == f"{os.getpid()}\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match="cannot be used: Not a directory"),
        Home.opened(tmp_path / "file" / "home"),
    ):
        pass


def test_a_shared_home_is_made_private_and_used_by_several(tmp_path: Path) -> None:
    path = tmp_path / "home"
    with Home.opened(path, shared=True) as first, Home.opened(path, shared=True) as second:
        assert first.path == second.path == path
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    with Home.opened(path, shared=False), pytest.raises(HomeLocked), Home.opened(path):
        pass


def test_a_shared_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match="cannot be used: Not a directory"),
        Home.opened(tmp_path / "file" / "home", shared=True),
    ):
        pass
