"""The MCP server of one caller, without a transport, by release 2 of the SDK."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from solward import __version__
from solward_mcp import handlers, tools
from solward_mcp.handlers import INSTRUCTIONS, responded
from solward_mcp.protocol import Json, ProtocolError
from solward_mcp.recovery import RecoveryNotifier
from solward_mcp.scope import WalletScope

_Context = ServerRequestContext[Any]
_Result = TypeVar("_Result", bound=BaseModel)


def mcp_server(scope: WalletScope, notifier: RecoveryNotifier | None = None) -> Server[Any]:
    """A server that calls the service at each request and caches nothing.

    Args:
        notifier: for transports that can send notifications.
    """
    bus = InMemorySubscriptionBus()

    async def sent(context: _Context, kind: type[_Result], work: Awaitable[Json]) -> _Result:
        def unreachable() -> None:
            if notifier is not None:
                notifier.watch(partial(_announce, bus, context.session))

        try:
            return kind.model_validate(await responded(work, unreachable))
        except ProtocolError as error:
            raise MCPError(error.code, str(error), error.data) from None

    async def list_tools(
        context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return await sent(context, types.ListToolsResult, tools.list_tools(scope))

    async def call_tool(
        context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        work = tools.call_tool(
            scope, params.name, params.arguments, context.meta, str(context.request_id)
        )
        return await sent(context, types.CallToolResult, work)

    async def list_resources(
        context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await sent(context, types.ListResourcesResult, handlers.list_resources(scope))

    async def list_templates(
        _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate(handlers.list_templates())

    async def read_resource(
        context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        work = handlers.read_resource(scope, params.uri)
        return await sent(context, types.ReadResourceResult, work)

    return Server(
        "solward",
        version=__version__,
        title="Solward",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        # `subscriptions/listen`: the notifications of the 2026 protocol.
        on_subscriptions_listen=None if notifier is None else ListenHandler(bus),
    )


async def _announce(bus: InMemorySubscriptionBus, session: ServerSession) -> None:
    await bus.publish(ToolsListChanged())
    await bus.publish(ResourcesListChanged())
    # For clients that have not sent `subscriptions/listen`.
    await session.send_tool_list_changed()
    await session.send_resource_list_changed()
