"""Telling a host that asked in vain when the service is there to be asked again.

Hosts list tools once, at their own start, and most start before the service does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ToolsListChanged,
)

from solward.client import ClientError, SolwardClient

_PAUSE_S = 2.0


class Recovery:
    """Watches for the service while it is away, and only then.

    Attributes:
        listen: serves `subscriptions/listen`, by which the protocol of 2026 asks to be told.
    """

    def __init__(self, client: SolwardClient) -> None:
        self._client = client
        self._bus = InMemorySubscriptionBus()
        self._task: asyncio.Task[None] | None = None
        self.listen = ListenHandler(self._bus)

    def watch(self, session: ServerSession) -> None:
        """Tell the session's host once the service answers."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tell(session))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch no longer than this."""
        try:
            yield
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def _tell(self, session: ServerSession) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            with contextlib.suppress(ClientError):
                await self._client.health()
                break
        await self._bus.publish(ToolsListChanged())
        await self._bus.publish(ResourcesListChanged())
        # Where the host has not asked by `subscriptions/listen`, the SDK sends these.
        await session.send_tool_list_changed()
        await session.send_resource_list_changed()
