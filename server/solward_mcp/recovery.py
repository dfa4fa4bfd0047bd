"""Notifying an MCP client that got no tools once the service responds again.

MCP clients list tools once, when they start, and most start before the service.
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


class RecoveryNotifier:
    """Polls a service that does not respond until it does, then notifies.

    Attributes:
        listen: serves `subscriptions/listen`, the notifications of the 2026 protocol.
    """

    def __init__(self, client: SolwardClient) -> None:
        self._client = client
        self._bus = InMemorySubscriptionBus()
        self._task: asyncio.Task[None] | None = None
        self.listen = ListenHandler(self._bus)

    def watch(self, session: ServerSession) -> None:
        """Notify the session's client once the service responds."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._notify(session))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stop polling at the end of the block."""
        try:
            yield
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def _notify(self, session: ServerSession) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            with contextlib.suppress(ClientError):
                await self._client.health()
                break
        await self._bus.publish(ToolsListChanged())
        await self._bus.publish(ResourcesListChanged())
        # For clients that have not sent `subscriptions/listen`.
        await session.send_tool_list_changed()
        await session.send_resource_list_changed()
