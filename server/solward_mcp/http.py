"""One HTTP request of MCP's streamable transport, answered as JSON.

Nothing outlives a request: no session, no stream, no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import httpx
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from solward.client import SolwardClient
from solward_mcp.reach import Reach
from solward_mcp.server import TIMEOUT_S, mcp_server

Headers = Iterable[tuple[bytes, bytes]]

# Never resolved: the transport calls the application in this process.
_HERE = "http://127.0.0.1"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    headers: Headers
    body: bytes


async def reply(
    app: Any, token: str, wallet: str | None, headers: Headers, body: bytes, most: int
) -> Reply:
    """Answer a POST for the caller whose token it carries.

    Args:
        app: the service's own ASGI application, which judges the token again for each call.
        wallet: the one wallet that the caller's key is confined to.
        headers: the request's, names in lower case.
        most: bytes of a body that are accepted.
    """
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with SolwardClient(_HERE, token, timeout_s=TIMEOUT_S, transport=transport) as client:
        manager = StreamableHTTPSessionManager(
            mcp_server(Reach(client, wallet)),
            json_response=True,
            stateless=True,
            max_request_body_size=most,
        )
        async with manager.run():
            return await _exchange(manager, headers, body)


async def _exchange(manager: StreamableHTTPSessionManager, headers: Headers, body: bytes) -> Reply:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": list(headers),
    }
    unread = [body]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        # A caller that goes away cancels the whole request from outside.
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await manager.handle_request(scope, receive, send)
    return Reply(
        status=sent[0]["status"],
        headers=sent[0].get("headers", ()),
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )
