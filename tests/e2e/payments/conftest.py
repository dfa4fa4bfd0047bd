"""A localnet for a module, sellers that settle on it, and services that buy from them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.payments.buyers import armed, beside
from tests.e2e.payments.stage import Counterparts, payment_stage
from tests.support.processes import Service


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counterparts]:
    """A ledger with somebody on it who gives USDC, and what is started against it."""
    with payment_stage(tmp_path_factory.mktemp("stage")) as counterparts:
        yield counterparts


@pytest.fixture(scope="module")
def serving(
    stage: Counterparts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Service]]:
    """Starts services beside the module's ledger that may pay the sites that are named."""
    made: list[Service] = []

    def serve(*sites: str, arming: str | None = None) -> Service:
        home: Path = tmp_path_factory.mktemp("service") / "home"
        made.append(beside(home, stage.ledger, *sites))
        return made[-1].start(None if arming is None else armed(arming))

    yield serve
    for service in made:
        if service.process is not None:
            service.stop(signal.SIGKILL)
