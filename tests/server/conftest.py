"""The application over a real service on the embedded ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.services import Api, serving_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home") as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A service for the tests of a module that read, or act on wallets and keys of their own."""
    async with serving_api(tmp_path_factory.mktemp("service") / "home") as made:
        yield made
