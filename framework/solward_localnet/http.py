"""The localnet's HTTP side: an ASGI application that carries JSON-RPC."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from solward_localnet.jsonrpc import Call, answer

MAX_BODY_BYTES = 50 * 1024
"""Agave's default `max_request_body_size`."""

_MOST_DISCARDED_BYTES = 1024 * 1024

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_CORS = ((b"access-control-allow-origin", b"*"), (b"vary", b"origin"))
_PREFLIGHT = (
    (b"access-control-allow-methods", b"OPTIONS, POST, GET"),
    (b"access-control-max-age", b"86400"),
)


class _BodyTooLargeError(Exception):
    """The request has more than `MAX_BODY_BYTES`."""


class _ClientGoneError(Exception):
    """The client closed the connection before its request was whole."""


def application(call: Call) -> Application:
    """The ASGI application: JSON-RPC by POST, `GET /health`, and CORS for every origin.

    A validator allows every origin too: it holds no secret and no session.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await _respond(scope, receive, send, call)

    return app


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _respond(scope: Scope, receive: Receive, send: Send, call: Call) -> None:
    method, headers = scope["method"], dict(scope["headers"])
    if method == "OPTIONS":
        requested = headers.get(b"access-control-request-headers", b"content-type")
        allowed = (*_PREFLIGHT, (b"access-control-allow-headers", requested))
        await _send(send, 200, "", _TEXT, allowed)
    elif method in ("GET", "HEAD") and scope["path"] == "/health":
        await _send(send, 200, "ok", _TEXT)
    elif method != "POST":
        text = "Used HTTP Method is not allowed. POST or OPTIONS is required\n"
        await _send(send, 405, text, _TEXT, ((b"allow", b"POST, OPTIONS"),))
    elif not _is_json(headers.get(b"content-type", b"")):
        text = "Supplied content type is not allowed. Content-Type: application/json is required\n"
        await _send(send, 415, text, _TEXT)
    else:
        try:
            body = await _read(receive)
        except _BodyTooLargeError:
            text = f"request body too large: at most {MAX_BODY_BYTES} bytes are accepted\n"
            # A rest of the body may be unread, so the connection cannot carry another request.
            await _send(send, 413, text, _TEXT, ((b"connection", b"close"),))
        except _ClientGoneError:
            return
        else:
            await _send(send, 200, await answer(body, call) or "", _JSON)


def _is_json(content_type: bytes) -> bool:
    return content_type.split(b";", 1)[0].strip().lower() == b"application/json"


async def _read(receive: Receive) -> bytes:
    body, total = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGoneError
        chunk = message.get("body", b"")
        total += len(chunk)
        if total <= MAX_BODY_BYTES:
            body += chunk
        # Read on for a while: an answer to a client that is still sending would be lost.
        elif total > _MOST_DISCARDED_BYTES:
            raise _BodyTooLargeError
        if not message.get("more_body", False):
            if total > MAX_BODY_BYTES:
                raise _BodyTooLargeError
            return bytes(body)


async def _send(
    send: Send,
    status: int,
    text: str,
    content_type: str,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    body = text.encode()
    all_headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
        *_CORS,
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
