from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.approvals import Desk, open_desk
from tests.support.swaps import swaps
from tests.support.tokens import tokens

__all__ = ["swaps", "tokens"]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as opened:
        yield opened
