"""The application over a real service on the embedded ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.api import Api, serving_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home") as made:
        yield made
