from __future__ import annotations

import pytest
from tests.vault.guardrails.bank import Bank


@pytest.fixture
def bank() -> Bank:
    return Bank()
