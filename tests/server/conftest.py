"""The application over a real service on the embedded ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.approvals import asks, guardrails
from tests.support.services import Api, serving_api

from solward.service import service as service_module


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home") as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A service for the tests of a module that read, or act on wallets and keys of their own."""
    async with serving_api(tmp_path_factory.mktemp("service") / "home") as made:
        yield made


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services hold whatever leaves, by a plugin's rule, until a person has approved it."""
    made = service_module.engine_options

    def options(*given: Any) -> Any:
        return replace(made(*given), plugin_guardrails=guardrails(asks))

    monkeypatch.setattr(service_module, "engine_options", options)
