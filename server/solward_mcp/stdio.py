"""MCP on standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server

from solward.client import SolwardClient
from solward_mcp.handlers import TIMEOUT_S
from solward_mcp.recovery import RecoveryNotifier
from solward_mcp.scope import WalletScope


async def serve(url: str, token: str, wallet: str | None, opened: Callable[[], None]) -> None:
    """Serve the MCP client that started this process, until it closes standard input.

    Standard output carries the protocol alone. The service may stop and start meanwhile.

    Args:
        url: the service's address.
        token: the admin secret or an API key.
        wallet: id, name or address of the only wallet to act on; None is the one that the key is
            confined to, or else all.
        opened: is called once address and token can be used, whether the service is there or not.

    Raises:
        InvalidRequest: the address or the token cannot be used.
    """
    async with SolwardClient(url, token, timeout_s=TIMEOUT_S) as client:
        opened()
        notifier = RecoveryNotifier(client)
        server = _server(WalletScope(client, wallet, asks_key=wallet is None), notifier)
        notifications = NotificationOptions(tools_changed=True, resources_changed=True)
        async with stdio_server() as (incoming, outgoing), notifier.running():
            await server.run(
                incoming, outgoing, server.create_initialization_options(notifications)
            )


def _server(scope: WalletScope, notifier: RecoveryNotifier) -> Any:
    # Release 2 of the SDK has its types in a distribution of their own.
    if find_spec("mcp_types") is None:
        from solward_mcp import server_sdk_1

        return server_sdk_1.mcp_server(scope, notifier)
    from solward_mcp import server

    return server.mcp_server(scope, notifier)
