"""The MCP server of one caller, without a transport, by release 2 of the SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
from solward_mcp.handlers import INSTRUCTIONS, respond
from solward_mcp.protocol import Json, ProtocolError
from solward_mcp.session import RecoveryNotifier, WalletScope

_Context = ServerRequestContext[Any]
_Result = TypeVar("_Result", bound=BaseModel)


def mcp_server(scope: WalletScope, notifier: RecoveryNotifier | None = None) -> Server[Any]:
    """Return a server that calls the service at each request and caches nothing.

    Args:
        notifier: sends notifications, on transports that can.
    """
    bus = InMemorySubscriptionBus()

    def sending(kind: type[_Result], work: Callable[[_Context, Any], Awaitable[Json]]) -> Any:
        """Return the handler of a request, which answers with the result of `work`."""

        async def send(context: _Context, params: Any) -> _Result:
            def unreachable() -> None:
                if notifier is not None:
                    notifier.watch(partial(_announce_lists, bus, context.session))

            try:
                return kind.model_validate(await respond(work(context, params), unreachable))
            except ProtocolError as error:
                raise MCPError(error.code, str(error), error.data) from None

        return send

    def call_tool(context: _Context, params: types.CallToolRequestParams) -> Awaitable[Json]:
        id_ = str(context.request_id)
        return tools.call_tool(scope, params.name, params.arguments, context.meta, id_)

    return Server(
        "solward",
        version=__version__,
        title="Solward",
        instructions=INSTRUCTIONS,
        on_list_tools=sending(types.ListToolsResult, lambda *_: tools.list_tools(scope)),
        on_call_tool=sending(types.CallToolResult, call_tool),
        on_list_resources=sending(
            types.ListResourcesResult, lambda *_: handlers.list_resources(scope)
        ),
        on_list_resource_templates=sending(
            types.ListResourceTemplatesResult, lambda *_: handlers.list_templates()
        ),
        on_read_resource=sending(
            types.ReadResourceResult, lambda _, params: handlers.read_resource(scope, params.uri)
        ),
        # `subscriptions/listen`: the notifications of the 2026 protocol.
        on_subscriptions_listen=None if notifier is None else ListenHandler(bus),
    )


async def _announce_lists(bus: InMemorySubscriptionBus, session: ServerSession) -> None:
    await bus.publish(ToolsListChanged())
    await bus.publish(ResourcesListChanged())
    # For clients that have not sent `subscriptions/listen`.
    await session.send_tool_list_changed()
    await session.send_resource_list_changed()
