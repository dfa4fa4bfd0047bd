"""The MCP server of one caller by release 1 of the SDK, which other frameworks pin.

An environment has one release; the service's own has 2, whose types these names are not.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from solward import __version__
from solward_mcp import handlers, tools
from solward_mcp.handlers import INSTRUCTIONS, responded
from solward_mcp.protocol import Json, ProtocolError
from solward_mcp.recovery import RecoveryNotifier
from solward_mcp.scope import WalletScope


def mcp_server(scope: WalletScope, notifier: RecoveryNotifier) -> Any:
    """A server that calls the service at each request and caches nothing."""
    lowlevel: Any = importlib.import_module("mcp.server.lowlevel")
    types: Any = importlib.import_module("mcp.types")
    logging.getLogger().addFilter(is_without_parameters)
    server = lowlevel.Server("solward", version=__version__, instructions=INSTRUCTIONS)

    def unreachable() -> None:
        notifier.watch(_announcing(server.request_context.session))

    def list_tools(_request: Any) -> Awaitable[Json]:
        return responded(tools.list_tools(scope), unreachable)

    def call_tool(request: Any) -> Awaitable[Json]:
        params = request.params
        meta = {} if params.meta is None else params.meta.model_dump()
        id_ = str(server.request_context.request_id)
        work = tools.call_tool(scope, params.name, params.arguments, meta, id_)
        return responded(work, unreachable)

    def list_resources(_request: Any) -> Awaitable[Json]:
        return responded(handlers.list_resources(scope), unreachable)

    async def list_templates(_request: Any) -> Json:
        return handlers.list_templates()

    def read_resource(request: Any) -> Awaitable[Json]:
        work = handlers.read_resource(scope, str(request.params.uri))
        return responded(work, unreachable)

    # Its decorators look at the functions' signatures and check arguments by the schemas, in words
    # that are not the service's.
    server.request_handlers |= {
        types.ListToolsRequest: _sending(types, types.ListToolsResult, list_tools),
        types.CallToolRequest: _sending(types, types.CallToolResult, call_tool),
        types.ListResourcesRequest: _sending(types, types.ListResourcesResult, list_resources),
        types.ListResourceTemplatesRequest: _sending(
            types, types.ListResourceTemplatesResult, list_templates
        ),
        types.ReadResourceRequest: _sending(types, types.ReadResourceResult, read_resource),
    }
    return server


def is_without_parameters(record: logging.LogRecord) -> bool:
    """Whether a line of the root logger may be written: the SDK logs the values of parameters that
    it cannot read, which may be secrets."""
    return not record.pathname.replace("\\", "/").endswith("mcp/shared/session.py")


def _sending(
    types: Any, kind: Any, handler: Callable[[Any], Awaitable[Json]]
) -> Callable[[Any], Awaitable[Any]]:
    exceptions: Any = importlib.import_module("mcp.shared.exceptions")

    async def send(request: Any) -> Any:
        try:
            return types.ServerResult(kind.model_validate(await handler(request)))
        except ProtocolError as error:
            told = types.ErrorData(code=error.code, message=str(error), data=error.data)
            raise exceptions.McpError(told) from None

    return send


def _announcing(session: Any) -> Callable[[], Awaitable[None]]:
    async def announce() -> None:
        await session.send_tool_list_changed()
        await session.send_resource_list_changed()

    return announce
