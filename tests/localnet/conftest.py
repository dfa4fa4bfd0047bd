"""A localnet in memory whose clock stands still until a test moves it."""

from collections.abc import AsyncIterator

import pytest
from tests.support.localnet import Chain, StillClock

from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def chain(clock: StillClock) -> AsyncIterator[Chain]:
    """A localnet with a funded payer."""
    options = LocalnetOptions(clock=clock, ticker=False, slots_per_epoch=32, test_control=True)
    node = await Localnet.open(None, options)
    try:
        yield await Chain.with_payer(node, clock)
    finally:
        await node.close()
