"""The HTTP and WebSocket server of a localnet, like a validator's: its ports, and the ASGI
application for JSON-RPC."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from websockets.asyncio.server import serve as serve_websocket

from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward_localnet.jsonrpc import Call, answer
from solward_localnet.ledger import Commit
from solward_localnet.websocket import PubSub

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
    """The client closed the connection before it had sent its whole request."""


def application(call: Call) -> Application:
    """Return the ASGI application: JSON-RPC by POST, `GET /health`, and CORS for every origin.

    A validator allows every origin too: it holds no secret and no session.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            message = None
            while message != "lifespan.shutdown":
                message = (await receive())["type"]
                await send({"type": f"{message}.complete"})
        elif scope["type"] == "http":
            await _send_response(scope, receive, send, call)

    return app


async def _send_response(scope: Scope, receive: Receive, send: Send, call: Call) -> None:
    method, headers = scope["method"], dict(scope["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0]
    if method == "OPTIONS":
        requested = headers.get(b"access-control-request-headers", b"content-type")
        allowed = (*_PREFLIGHT, (b"access-control-allow-headers", requested))
        await _send(send, 200, "", _TEXT, allowed)
    elif method in ("GET", "HEAD") and scope["path"] == "/health":
        await _send(send, 200, "ok", _TEXT)
    elif method != "POST":
        text = "Used HTTP Method is not allowed. POST or OPTIONS is required\n"
        await _send(send, 405, text, _TEXT, ((b"allow", b"POST, OPTIONS"),))
    elif kind.strip().lower() != b"application/json":
        text = "Supplied content type is not allowed. Content-Type: application/json is required\n"
        await _send(send, 415, text, _TEXT)
    else:
        try:
            body = await _read_body(receive)
        except _BodyTooLargeError:
            text = f"request body too large: at most {MAX_BODY_BYTES} bytes are accepted\n"
            # Part of the body may be unread, so the connection cannot be used for another request.
            await _send(send, 413, text, _TEXT, ((b"connection", b"close"),))
        except _ClientGoneError:
            return
        else:
            await _send(send, 200, await answer(body, call) or "", _JSON)


async def _read_body(receive: Receive) -> bytes:
    body, total = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGoneError
        chunk = message.get("body", b"")
        total += len(chunk)
        if total <= MAX_BODY_BYTES:
            body += chunk
        # Continue to read for a while: a client that is still sending would not get the answer.
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


_BACKLOG = 512
_PAIR_ATTEMPTS = 20
# web3.js keeps a free connection for 19 seconds and expects its server to keep it longer.
BOUNDS = Bounds(body_s=30.0, idle_s=75.0, stop_s=1.0)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses on which a served localnet listens."""

    host: str
    http_port: int
    ws_port: int

    @property
    def http(self) -> str:
        """The JSON-RPC address."""
        return f"http://{_url_host(self.host)}:{self.http_port}"

    @property
    def ws(self) -> str:
        """The WebSocket address."""
        return f"ws://{_url_host(self.host)}:{self.ws_port}"


class RpcNode(Protocol):
    """A node that can be served: `Localnet`, or any object with its two methods."""

    @property
    def call(self) -> Call:
        """Executes a JSON-RPC method."""

    def subscribe(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` after each commit, until the returned function is called."""


@contextlib.asynccontextmanager
async def serving(
    localnet: RpcNode, host: str, http_port: int, ws_port: int | None = None
) -> AsyncIterator[Addresses]:
    """Serve `localnet` inside the `async with` block; the localnet itself stays open after it.

    `ws_port` None is the port after the HTTP one, where clients look for it. `http_port` 0 takes
    any free one (with `ws_port` None, one whose next is free too).

    Raises:
        OSError: an address cannot be listened on.
    """
    http_socket, ws_socket = _sockets(host, http_port, ws_port)
    addresses = Addresses(host, http_socket.getsockname()[1], ws_socket.getsockname()[1])
    pubsub = PubSub(localnet.call)
    unsubscribe = localnet.subscribe(pubsub.publish)
    app, stop = application(localnet.call), asyncio.Event()
    try:
        async with serve_websocket(
            pubsub.serve_connection,
            sock=ws_socket,
            compression=None,
            max_size=MAX_BODY_BYTES,
            close_timeout=1,
            server_header=None,
        ):
            http = asyncio.create_task(serve_http(app, http_socket, stop.wait, BOUNDS))
            try:
                yield addresses
            finally:
                stop.set()
                await http
    finally:
        unsubscribe()


def _sockets(host: str, http_port: int, ws_port: int | None) -> tuple[socket.socket, socket.socket]:
    attempts = _PAIR_ATTEMPTS if http_port == 0 and ws_port is None else 1
    while True:
        attempts -= 1
        http_socket = _listen(host, http_port)
        wanted = http_socket.getsockname()[1] + 1 if ws_port is None else ws_port
        try:
            return http_socket, _listen(host, wanted)
        except (OSError, OverflowError):
            http_socket.close()
            if not attempts:
                raise


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    listening.setblocking(False)
    return listening


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
