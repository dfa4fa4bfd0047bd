from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No keystore, and no `.env`, of the machine the tests run on."""
    for name in ("KEYSTORE_PASSPHRASE", "KEYSTORE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
