"""Plugin hosts that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio
from tests.support.hosts import QUICK_HOST

from solward.hosts.supervisor import Hosts


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def _of_module() -> AsyncIterator[Hosts]:
    made = Hosts(limits=QUICK_HOST)
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def hosts(_of_module: Hosts) -> AsyncIterator[Hosts]:
    """None yet, of a zygote that runs; they end with the test."""
    yield _of_module
    for host in _of_module.hosts:
        await _of_module.remove(host)


@pytest_asyncio.fixture(loop_scope="module")
async def opened() -> AsyncIterator[Callable[..., Awaitable[Hosts]]]:
    """Opens `Hosts` of their own, closed after the test."""
    made: list[Hosts] = []

    async def open_hosts(**options: Any) -> Hosts:
        new = Hosts(**{"limits": QUICK_HOST, **options})
        made.append(new)
        await new.open()
        return new

    yield open_hosts
    for each in made:
        await each.close()
