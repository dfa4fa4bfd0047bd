"""MCP on standard input and output."""

from __future__ import annotations

from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server

from solward.client import SolwardClient
from solward_mcp.recovery import RecoveryNotifier
from solward_mcp.scope import WalletScope
from solward_mcp.server import TIMEOUT_S, mcp_server


async def serve(url: str, token: str, wallet: str | None) -> None:
    """Serve the MCP client that started this process, until it closes standard input.

    Standard output carries the protocol alone. The service may stop and start meanwhile.

    Args:
        url: the service's address.
        token: the admin secret or an API key.
        wallet: id, name or address of the only wallet to act on.
    """
    async with SolwardClient(url, token, timeout_s=TIMEOUT_S) as client:
        notifier = RecoveryNotifier(client)
        server = mcp_server(WalletScope(client, wallet), notifier)
        notifications = NotificationOptions(tools_changed=True, resources_changed=True)
        async with stdio_server() as (incoming, outgoing), notifier.running():
            await server.run(
                incoming, outgoing, server.create_initialization_options(notifications)
            )
