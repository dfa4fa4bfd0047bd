"""What `solward server start` refuses before it takes a port."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from click.testing import CliRunner

from solward_cli import main


def test_an_embedded_ledger_for_each_of_several_processes_is_refused(tmp_path: Path) -> None:
    given = {
        "SOLWARD_HOME": str(tmp_path / "home"),
        "DATABASE_URL": "postgresql://solward:canary-of-7d1c@db.invalid/solward",
        "SOLANA_RPC_URL": None,
    }
    result = CliRunner(env=given).invoke(main, ["server", "start", "--port", "0"])
    assert result.exit_code == 2
    assert "SOLANA_RPC_URL must be set where DATABASE_URL is PostgreSQL" in result.stderr
    assert "canary-of-7d1c" not in result.output
    assert not (tmp_path / "home").exists()


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
