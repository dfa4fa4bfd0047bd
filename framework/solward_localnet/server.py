"""A localnet served over HTTP and WebSocket, as a validator is."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from websockets.asyncio.server import serve as serve_websocket

from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward_localnet.http import MAX_BODY_BYTES, application
from solward_localnet.jsonrpc import Call
from solward_localnet.ledger import Commit
from solward_localnet.websocket import PubSub

_BACKLOG = 512
_PAIR_ATTEMPTS = 20
# web3.js keeps a free connection for 19 seconds and expects its server to keep it longer.
BOUNDS = Bounds(body_s=30.0, idle_s=75.0, stop_s=1.0)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a served localnet listens."""

    host: str
    http_port: int
    ws_port: int

    @property
    def http(self) -> str:
        """The JSON-RPC address."""
        return f"http://{_in_url(self.host)}:{self.http_port}"

    @property
    def ws(self) -> str:
        """The WebSocket address."""
        return f"ws://{_in_url(self.host)}:{self.ws_port}"


class RpcNode(Protocol):
    """What is served: `Localnet`, or anything with its two methods."""

    @property
    def call(self) -> Call:
        """Executes a JSON-RPC method."""

    def subscribe(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Calls `listener` after each commit, until what it returns is called."""


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
    http_socket, ws_socket = _bind(host, http_port, ws_port)
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


def _bind(host: str, http_port: int, ws_port: int | None) -> tuple[socket.socket, socket.socket]:
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


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
