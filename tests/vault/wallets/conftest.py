from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from solward.vault.store.database import Database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(None, tmp_path)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No keystore, and no `.env`, of the machine the tests run on."""
    for name in ("KEYSTORE_PASSPHRASE", "KEYSTORE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
