"""What `solward server start` refuses before it takes a port."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from solward_cli import main


def test_an_embedded_ledger_for_each_of_several_processes_is_refused(tmp_path: Path) -> None:
    given = {
        "SOLWARD_HOME": str(tmp_path / "home"),
        "DATABASE_URL": "postgresql://solward:canary-7d1c@db.invalid/solward",
        "SOLANA_RPC_URL": None,
    }
    result = CliRunner(env=given).invoke(main, ["server", "start", "--port", "0"])
    assert result.exit_code == 2
    assert "SOLANA_RPC_URL must be set where DATABASE_URL is PostgreSQL" in result.stderr
    assert "canary-7d1c" not in result.output
    assert not (tmp_path / "home").exists()
