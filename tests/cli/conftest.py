"""A running service for the commands that call one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.cli import Live, live_service

from solward_localnet.market import genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_service(tmp_path_factory.mktemp("live")) as made:
        yield made


@pytest.fixture(autouse=True)
def _agents_of_a_test(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "live" in request.fixturenames:
        request.getfixturevalue("live").stop_agents()


@pytest.fixture
async def localnet() -> AsyncIterator[Localnet]:
    """A ledger in memory, with the demo market."""
    node = await Localnet.open(None, LocalnetOptions(genesis=genesis_accounts))
    yield node
    await node.close()
