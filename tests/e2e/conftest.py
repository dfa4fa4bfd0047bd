"""Services in processes of their own, gone when the test ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.processes import Service


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Any]:
    """Makes services that are gone when the test ends."""
    made: list[Service] = []

    def make(**environment: str) -> Service:
        home = tmp_path / f"s{len(made)}" / "home"
        home.parent.mkdir()
        service = Service(home, **environment)
        made.append(service)
        return service

    yield make
    for service in made:
        if service.process is not None:
            service.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service with the contract's own limits, for the process of its examples."""
    home = tmp_path_factory.mktemp("contract") / "home"
    service = Service(home, MAX_TRANSACTIONS_PER_MINUTE="5").start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture
def client(contract: Service) -> Iterator[httpx.Client]:
    """Its API with the admin secret."""
    with contract.client() as made:
        yield made
