"""One HTTP request of MCP's streamable transport, with a JSON response.

No session, stream or task outlives the request.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_PROTOCOL_VERSION

from solward.client import SolwardClient
from solward.support import jsontext
from solward_mcp.handlers import TIMEOUT_S
from solward_mcp.protocol import Json, cancelled_id, refusal_of
from solward_mcp.server import mcp_server
from solward_mcp.session import CallsByCaller, WalletScope

Headers = Sequence[tuple[bytes, bytes]]

# Not resolved: the transport calls the application in this process.
_BASE_URL = "http://127.0.0.1"

_HELD = CallsByCaller()

_ACCEPT: Final = b"accept"
_TYPE: Final = b"content-type"
_VERSION: Final = b"mcp-protocol-version"
_NOTIFIED: Final = "notifications/"
_DATE: Final = re.compile(rb"\d{4}-\d\d-\d\d")
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
    """Answer a POST for the caller of this token.

    Args:
        app: the service's ASGI application, which authenticates the token at each call.
        wallet: the wallet that the caller's key is confined to.
        headers: the request's, names in lower case.
        max_bytes: maximum bytes of a body.
    """
    refusal = refusal_of(body, max_bytes)
    if refusal is not None:
        told = jsontext.dumps(refusal).encode()
        return Reply(400, [(b"content-type", b"application/json")], told)
    body = body.removeprefix(codecs.BOM_UTF8)
    message = jsontext.loads(body)
    held = _HELD.of_caller(token)
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
                return await _exchange(manager, headers, message, body)
        except asyncio.CancelledError:
            # The client closed the connection, perhaps with the answer on its way.
            if scope.call is not None:
                held.drop(str(message["id"]), scope.call)
            raise


async def _exchange(
    manager: StreamableHTTPSessionManager, headers: Headers, message: Json, body: bytes
) -> Reply:
    if _is_stray(message):
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
        "headers": _sdk_headers(headers, message),
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


# What the SDK misreads of a request: some headers, and requests without an id.


def _sdk_headers(headers: Headers, message: Json) -> list[tuple[bytes, bytes]]:
    """Return the headers with one `Accept` and one `Content-Type`, and without the version header
    if the message itself negotiates the version.

    A client without `Accept` accepts everything (RFC 9110, 12.5.1). The SDK chooses how to read a
    message only by the version header. But `initialize` names its version in its body, and messages
    of versions that are newer than the SDK may lack the envelope that also names the version.
    """
    accepted = b", ".join(value for name, value in headers if name == _ACCEPT and value.strip())
    version = next((value for name, value in headers if name == _VERSION), b"")
    left_out = {_ACCEPT, _TYPE}
    if version and _negotiates_version(version, message):
        left_out.add(_VERSION)
    kept = [header for header in headers if header[0] not in left_out]
    return [*kept, (_ACCEPT, accepted or b"*/*"), (_TYPE, b"application/json")]


def _is_stray(message: Json) -> bool:
    """Return whether a message has no id, although its method is not a notification's.

    The SDK would accept a request without an id, and send no answer.
    """
    method = message.get("method")
    return "id" not in message and isinstance(method, str) and not method.startswith(_NOTIFIED)


def _negotiates_version(version: bytes, message: Json) -> bool:
    if message.get("method") == "initialize":
        return True
    is_later = _DATE.fullmatch(version) and version > LATEST_PROTOCOL_VERSION.encode()
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    has_envelope = isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta
    return bool(is_later) and not has_envelope
