"""`solward database upgrade` on SQLite; `test_offline_postgres.py` has the other."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import home_with_wallets, solward


def test_on_sqlite_there_is_nothing_to_upgrade(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home_with_wallets(home, 1)
    result = solward(home, "database", "upgrade")
    assert result.exit_code == 0, result.output
    assert result.stdout == "On SQLite there is no queue: nothing to upgrade.\n"
