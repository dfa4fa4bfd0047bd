"""What `solward worker` refuses before it takes a port."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from solward_cli import main

POSTGRES = {"DATABASE_URL": "postgresql://solward:canary-7d1c-long@db.invalid/solward"}
LEDGER = {"SOLANA_RPC_URL": "http://127.0.0.1:9", "SOLANA_NETWORK": "localnet"}


@pytest.mark.parametrize(
    ("given", "options", "why"),
    [
        (LEDGER, [], "solward worker needs a PostgreSQL in DATABASE_URL; on SQLite the service"),
        (POSTGRES, [], "SOLANA_RPC_URL must be set if DATABASE_URL is PostgreSQL"),
        (POSTGRES | LEDGER, ["--concurrency", "0"], "Invalid value for '--concurrency'"),
        (POSTGRES | LEDGER, ["--host", "0.0.0.0"], "API_SECRET"),
    ],
)
def test_what_a_worker_cannot_run_with_is_refused(
    tmp_path: Path, given: dict[str, str], options: list[str], why: str
) -> None:
    home = {"SOLWARD_HOME": str(tmp_path / "home"), "API_SECRET": None, "SOLANA_RPC_URL": None}
    started = CliRunner(env=home | given).invoke(main, ["worker", "--port", "0", *options])
    assert started.exit_code == 2
    assert why in started.stderr
    assert "canary-7d1c" not in started.output
    assert not (tmp_path / "home").exists()
