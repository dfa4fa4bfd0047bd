"""The client over the real application in this process, on the embedded ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.services import SECRET, Api, Carrier, serving_api

from solward.client import SolwardClient

URL = "http://solward.test"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(
        tmp_path / "home", demo=True, max_transactions_per_minute=1000, localnet_slot_ms=200
    ) as made:
        yield made


@pytest.fixture
def carrier(api: Api) -> Carrier:
    return Carrier(api.app)


@pytest.fixture
async def client(carrier: Carrier) -> AsyncIterator[SolwardClient]:
    async with SolwardClient(URL, SECRET, transport=carrier, timeout_s=30) as made:
        yield made
