"""Notifying an MCP client that got no tools once the service responds again.

MCP clients list tools once, when they start, and most start before the service.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from solward.client import ClientError, SolwardClient

_PAUSE_S = 2.0


class RecoveryNotifier:
    """Polls a service that does not respond until it does, then notifies."""

    def __init__(self, client: SolwardClient) -> None:
        self._client = client
        self._task: asyncio.Task[None] | None = None

    def watch(self, announce: Callable[[], Awaitable[None]]) -> None:
        """Once the service responds, tell the client that its lists changed."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._notify(announce))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stop polling at the end of the block."""
        try:
            yield
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def _notify(self, announce: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            with contextlib.suppress(ClientError):
                await self._client.health()
                break
        await announce()
