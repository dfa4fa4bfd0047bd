"""What `solward server start` refuses before it takes a port."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from click.testing import CliRunner

from solward_cli import main


@pytest.mark.parametrize("command", [["server", "start"], ["worker"], ["up"]], ids=" ".join)
def test_a_refused_start_leaves_garbage_collected(command: list[str], tmp_path: Path) -> None:
    given = {"SOLWARD_HOME": str(tmp_path / "home"), "API_PORT": "none"}
    assert gc.isenabled()
    try:
        result = CliRunner(env=given).invoke(main, command)
        assert result.exit_code == 2
        assert gc.isenabled()
    finally:
        gc.enable()
