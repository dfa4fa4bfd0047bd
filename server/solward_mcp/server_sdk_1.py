"""The MCP server of one caller by release 1 of the SDK, which other frameworks pin.

An environment has only one release. The service's own has release 2, without the names used here.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from solward import __version__
from solward_mcp import handlers, tools
from solward_mcp.handlers import INSTRUCTIONS, respond
from solward_mcp.protocol import Json, ProtocolError
from solward_mcp.session import RecoveryNotifier, WalletScope


def mcp_server(scope: WalletScope, notifier: RecoveryNotifier) -> Any:
    """Return a server that calls the service at each request and caches nothing."""
    lowlevel: Any = importlib.import_module("mcp.server.lowlevel")
    types: Any = importlib.import_module("mcp.types")
    exceptions: Any = importlib.import_module("mcp.shared.exceptions")
    logging.getLogger().addFilter(is_without_parameters)
    server = lowlevel.Server("solward", version=__version__, instructions=INSTRUCTIONS)

    def unreachable() -> None:
        session = server.request_context.session

        async def announce() -> None:
            await session.send_tool_list_changed()
            await session.send_resource_list_changed()

        notifier.watch(announce)

    def call_tool(request: Any) -> Awaitable[Json]:
        params = request.params
        meta = {} if params.meta is None else params.meta.model_dump()
        id_ = str(server.request_context.request_id)
        return tools.call_tool(scope, params.name, params.arguments, meta, id_)

    def sending(kind: Any, work: Callable[[Any], Awaitable[Json]]) -> Callable[[Any], Any]:
        """Return the handler of a request, which answers with the result of `work`."""

        async def send(request: Any) -> Any:
            try:
                answer = await respond(work(request), unreachable)
                return types.ServerResult(kind.model_validate(answer))
            except ProtocolError as error:
                told = types.ErrorData(code=error.code, message=str(error), data=error.data)
                raise exceptions.McpError(told) from None

        return send

    # The SDK's decorators check arguments by the schemas, with error texts that are not the
    # service's.
    server.request_handlers |= {
        types.ListToolsRequest: sending(types.ListToolsResult, lambda _: tools.list_tools(scope)),
        types.CallToolRequest: sending(types.CallToolResult, call_tool),
        types.ListResourcesRequest: sending(
            types.ListResourcesResult, lambda _: handlers.list_resources(scope)
        ),
        types.ListResourceTemplatesRequest: sending(
            types.ListResourceTemplatesResult, lambda _: handlers.list_templates()
        ),
        types.ReadResourceRequest: sending(
            types.ReadResourceResult,
            lambda request: handlers.read_resource(scope, str(request.params.uri)),
        ),
    }
    return server


def is_without_parameters(record: logging.LogRecord) -> bool:
    """Return whether a line of the root logger may be written: the SDK logs the values of
    parameters that it cannot read, which may be secrets."""
    return not record.pathname.replace("\\", "/").endswith("mcp/shared/session.py")
