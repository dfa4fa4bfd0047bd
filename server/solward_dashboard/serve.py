"""The server of the pages: uvicorn until a stop is requested, with the API's bounds."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from threading import Thread
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from nicegui import core, ui
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from solward.serving.bounds import (
    CLOSE,
    FRAMINGS,
    App,
    Bounds,
    Connection,
    Connections,
    Receive,
    Request,
    Send,
)
from solward_dashboard import pages
from solward_dashboard.access import AccessGate, bind_sockets
from solward_dashboard.api import open_api
from solward_dashboard.options import Options
from solward_dashboard.pages import unknown

_RECONNECT_S = 60.0
BOUNDS = Bounds(body_s=30.0)
_PART_BYTES = 4 * 1024
_MOST_BEHIND = 16
_ICON = Path(__file__).parent / "static" / "icon.svg"


def serve(
    options: Options,
    listening: socket.socket,
    *,
    ready: Callable[[str], None] = lambda _url: None,
    until_stdin_ends: bool = False,
) -> None:
    """Serve on a listening socket until SIGINT or SIGTERM.

    Args:
        ready: called with the address once requests are accepted.
        until_stdin_ends: stop as well when standard input ends, as it does with the process
            that holds its other end.
    """
    app = build(options)
    config = uvicorn.Config(
        **uvicorn_bounds(app, BOUNDS),
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    def stop_at_end_of_input() -> None:
        sys.stdin.buffer.read()
        stop()

    # uvicorn replaces these handlers, and calls them with the signal when it ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    if until_stdin_ends:
        Thread(target=stop_at_end_of_input, daemon=True).start()
    ready(options.url)
    server.run(sockets=[listening])


def build(options: Options) -> FastAPI:
    """Return the application: pages behind `AccessGate` that load nothing from other machines.

    Without a storage secret NiceGUI stores nothing of a visitor, neither on disk nor in a cookie.
    """
    app = FastAPI(openapi_url=None, lifespan=open_api(options))
    pages.register()
    ui.run_with(
        app,
        title="Solward",
        favicon=_ICON,
        # A page that reconnects in time keeps its state, half-typed forms included; its polls
        # pause meanwhile.
        reconnect_timeout=_RECONNECT_S,
        message_history_length=200,
        show_welcome_message=False,
        tailwind=False,
        unocss="mini",
        dark=None,
        # Tells screen readers the language of the pages.
        language="en-US",
    )
    # NiceGUI's application gets no address with a line break.
    for each in (app, core.app):
        each.add_exception_handler(404, unknown.answer)
    app.add_middleware(AccessGate, options=options)
    # NiceGUI allows all origins on its socket by default.
    core.sio.eio.cors_allowed_origins = None
    bind_sockets(core.sio)
    return app


def uvicorn_bounds(app: App, bounds: Bounds) -> dict[str, Any]:
    """Return the arguments of `uvicorn.Config` that enforce the bounds of one server.

    Connections that become WebSockets are no longer counted: their application knows them.
    """
    kept: list[Connections] = []

    def protocol(**arguments: Any) -> _Protocol:
        # Made at the first connection, because it needs a running event loop.
        kept[:] = kept or [Connections(bounds)]
        return _Protocol(kept[0], AutoHTTPProtocol(**arguments))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            called = _refuse_request if _is_ambiguous(scope["headers"]) else app
            await Request(_CURRENT.get().begin(), receive, send).run(called, scope)
        else:
            await app(scope, receive, send)

    return {"app": answer, "http": protocol}


def _is_ambiguous(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether a proxy and this server could read the request differently.

    If a body has both a length and chunks, a proxy may use one and uvicorn the other; the rest of
    the body would be read as the next client's request (RFC 9112, 6.3). A malformed WebSocket
    handshake is a plain request to uvicorn, and may be a handshake to a proxy.
    """
    names = {name for name, _ in headers}
    upgrades = {value.lower() for name, value in headers if name == b"upgrade"}
    return names >= FRAMINGS or b"websocket" in upgrades


async def _refuse_request(_scope: Any, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 400, "headers": CLOSE})
    await send({"type": "http.response.body", "body": b""})


class _Protocol(asyncio.Protocol):
    """Passes a connection's events on to uvicorn's protocol, and records them."""

    def __init__(self, kept: Connections, uvicorn: asyncio.Protocol) -> None:
        self._kept, self._uvicorn = kept, uvicorn
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is not a subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._uvicorn.connection_made(transport)
        self._connection = Connection(self._kept, lambda _: self._transport.abort())

    def data_received(self, data: bytes) -> None:
        if not self._connection.running:
            self._connection.wait(self._kept.heads)
        self._head_bytes += len(data)
        _CURRENT.set(self)
        for begin in range(0, len(data), _PART_BYTES):
            self._uvicorn.data_received(data[begin : begin + _PART_BYTES])
            # Each pipelined request costs kilobytes.
            if len(getattr(self._uvicorn, "pipeline", ())) > _MOST_BEHIND:
                self._connection.cut_off()
                return
        if self._transport.get_protocol() is not self:
            self._kept.remove(self._connection)
        else:
            # By then the application of a complete head has been called.
            asyncio.get_running_loop().call_soon(self._check_head)

    def begin(self) -> Connection:
        """Record the end of a request's head, after which the application is called."""
        self._connection.begin()
        self._head_bytes = 0
        return self._connection

    def _check_head(self) -> None:
        if self._connection.running:
            self._head_bytes = 0
        elif self._head_bytes > self._kept.bounds.head_bytes:
            self._connection.cut_off()

    def pause_writing(self) -> None:
        self._kept.unread[self._connection] = self._kept.now()
        self._uvicorn.pause_writing()

    def resume_writing(self) -> None:
        self._kept.unread.pop(self._connection, None)
        self._uvicorn.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._kept.remove(self._connection)
        self._uvicorn.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._uvicorn.eof_received()


# uvicorn calls the application in the context in which it was given the request.
_CURRENT: ContextVar[_Protocol] = ContextVar("protocol")
