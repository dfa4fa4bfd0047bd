"""One HTTP request of MCP's streamable transport, with a JSON response.

No session, stream or task outlives the request.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import httpx
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from solward.client import SolwardClient
from solward.support import jsontext
from solward_mcp.handlers import TIMEOUT_S
from solward_mcp.held import Callers
from solward_mcp.negotiation import is_stray, negotiable
from solward_mcp.protocol import cancelled_id, refusal_of
from solward_mcp.scope import WalletScope
from solward_mcp.server import mcp_server

Headers = Iterable[tuple[bytes, bytes]]

# Not resolved: the transport calls the application in this process.
_BASE_URL = "http://127.0.0.1"

_HELD = Callers()
# An error without an id, since the message has none.
_STRAY = (
    b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request: a request has an id, and'
    b' the method of a notification begins with notifications/"}}'
)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    headers: Headers
    body: bytes


async def reply(
    app: Any, token: str, wallet: str | None, headers: Headers, body: bytes, max_bytes: int
) -> Reply:
    """Respond to a POST for the caller of this token.

    Args:
        app: the service's ASGI application, which authenticates the token at each call.
        wallet: the wallet that the caller's key is confined to.
        headers: the request's, names in lower case.
        max_bytes: of a body.
    """
    refusal = refusal_of(body, max_bytes)
    if refusal is not None:
        told = jsontext.dumps(refusal).encode()
        return Reply(400, [(b"content-type", b"application/json")], told)
    body = body.removeprefix(codecs.BOM_UTF8)
    message = jsontext.loads(body)
    held = _HELD.of(token)
    cancelled = cancelled_id(message)
    if cancelled is not None:
        held.cancel(str(cancelled))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with SolwardClient(_BASE_URL, token, timeout_s=TIMEOUT_S, transport=transport) as client:
        scope = WalletScope(client, wallet, held)
        manager = StreamableHTTPSessionManager(
            mcp_server(scope),
            json_response=True,
            stateless=True,
            max_request_body_size=max_bytes,
        )
        try:
            async with manager.run():
                return await _exchange(manager, headers, body)
        except asyncio.CancelledError:
            # The client closed the connection, perhaps with the answer on its way.
            if scope.call is not None:
                held.drop(str(message["id"]), scope.call)
            raise


async def _exchange(manager: StreamableHTTPSessionManager, headers: Headers, body: bytes) -> Reply:
    if is_stray(body):
        return Reply(400, [(b"content-type", b"application/json")], _STRAY)
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
        "headers": negotiable(list(headers), body),
    }
    unread = [body]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        # A disconnect cancels the whole request.
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
