"""The built-in language model providers in model hosts, as the service runs them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from solward.hosts.models import ModelHosts
from solward.plugins import LoadedProvider, load_registry
from solward.settings.home import default_models_folder


@asynccontextmanager
async def model_hosts(
    count: int = 1,
) -> AsyncIterator[tuple[ModelHosts, Mapping[str, LoadedProvider]]]:
    """The hosts, and the providers by name; they belong to the running event loop."""
    hosts = ModelHosts(count, default_models_folder())
    try:
        yield hosts, load_registry(["solward"], demo=True, models=hosts).providers
    finally:
        await hosts.close()


def in_memory_of(pid: int, text: str) -> bool:
    """Whether the bytes of a text stand anywhere in the memory of a process that may be written."""
    wanted = re.compile(re.escape(text.encode()))
    regions = re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) rw", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE
    )
    assert regions
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end in regions:
            memory.seek(int(start, 16))
            # A region may have been given back meanwhile.
            try:
                data = memory.read(int(end, 16) - int(start, 16))
            except OSError:
                continue
            if wanted.search(data):
                return True
    return False


async def until(happened: Callable[[], object]) -> None:
    """Wait for something that happens in another process."""
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.01)
