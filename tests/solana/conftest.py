import pytest
from tests.vault.guardrails.bank import Bank


@pytest.fixture
def bank() -> Bank:
    return Bank()
