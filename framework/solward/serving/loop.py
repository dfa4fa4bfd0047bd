"""Serving an application with Hypercorn until a stop, each connection within bounds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.lifespan import Lifespan
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config

from solward.serving.bounds import CLOSE, App, Bounds, Connection, Connections, Request

BACKLOG = 1_024
_HEAD_END = re.compile(rb"\A\r?\n|\n\r?\n")
_OFFER = re.compile(rb"(?i)(?<=\n)upgrade(?=:[ \t]*h2c[ \t]*\r?\n)")
_ANSWER = re.compile(rb"HTTP/1\.1 (?!101)")


class _Streams:
    """What Hypercorn is given as a connection's reader, writer, context and application."""

    def __init__(
        self,
        serve: Callable[[Any], Awaitable[None]],
        app: App,
        kept: Connections,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._app, self._reader, self._writer = app, reader, writer
        tls = writer.get_extra_info("ssl_object")
        self._speaks_h2 = tls is not None and tls.selected_alpn_protocol() == "h2"
        # Of a context. An idle connection ends by its own event, or it would outlive its client.
        self.event_class, self.terminated = WorkerContext.event_class, asyncio.Event()
        # Of a writer.
        self.get_extra_info, self.drain = writer.get_extra_info, writer.drain
        self.wait_closed = writer.wait_closed
        # Without, a body waits until the client has acknowledged its head.
        self._set_option(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.task = asyncio.get_running_loop().create_task(self._run(serve))
        self.connection = Connection(kept, self._abort)

    async def _run(self, serve: Callable[[Any], Awaitable[None]]) -> None:
        try:
            # Whatever its client sends to make Hypercorn fail is no error of this server's.
            with contextlib.suppress(Exception):
                await serve(self)
        finally:
            self.connection.kept.remove(self.connection)
            self._writer.transport.abort()

    async def __call__(self, scope: Any, receive: Any, send: Any, *_spawners: Any) -> None:
        if scope["type"] == "websocket":
            kind = "websocket.http.response"
            await send({"type": f"{kind}.start", "status": 400, "headers": CLOSE})
            await send({"type": f"{kind}.body", "body": b""})
            self.connection.running = 0
            self.connection.cut_off()
        elif scope["http_version"] == "2" and not self._speaks_h2:
            self.connection.cut_off()
        elif self.connection in self.connection.kept.all:
            await Request(self.connection, receive, send).run(self._app, scope)
            if self._writer.is_closing() and not self.connection.running:
                # Hypercorn waits for ever to parse a request that came behind the last one.
                self.task.cancel()

    async def mark_request(self) -> None:
        """Count a request; its application is called next."""
        self.connection.begin()

    def at_eof(self) -> bool:
        """Whether the client has ended; then nothing is waited for any more."""
        if self._reader.at_eof():
            self.terminated.set()
        return self._reader.at_eof()

    async def read(self, most: int) -> bytes:
        """Read a part of a body, or a whole head, without an offer of HTTP/2."""
        connection, limit = self.connection, self.connection.kept.bounds.head_bytes
        data, searched = bytearray(await self._reader.read(most)), 0
        if not data or connection.running or self._speaks_h2:
            if data and not connection.running:
                connection.wait(connection.kept.heads)
            return bytes(data)
        # No head begins with a space or less.
        while not (end := _HEAD_END.search(data, searched)) and len(data) <= limit and data[0] > 32:
            connection.wait(connection.kept.heads)
            searched = max(0, len(data) - 3)
            if not (part := await self._reader.read(most)):
                break
            data += part
        if not end or end.end() > limit:
            # So much of one that is too large, without its end, Hypercorn refuses.
            return bytes(data[: limit + 1])
        if data.startswith(b"PRI * HTTP/2"):
            return b"\r\n"
        return _OFFER.sub(b"x-upgrade", data[: end.end()]) + data[end.end() :]

    def write(self, data: bytes) -> None:
        """Write, unless Hypercorn takes up an offer of HTTP/2 behind another request."""
        if self.connection.running or self._speaks_h2 or _ANSWER.match(data):
            self._writer.write(data)
        else:
            self.connection.cut_off()

    def write_eof(self) -> None:
        """End an answer; one that is not whole must not look so."""
        self.close() if self.connection.answering else self._writer.write_eof()

    def close(self) -> None:
        """Close, once the client has read what it was sent."""
        if self.connection.answering:
            self.connection.cut_off()
        else:
            self.connection.kept.unread.setdefault(self.connection, self.connection.kept.now())
            self._writer.close()

    def _set_option(self, level: int, name: int, value: int | bytes) -> None:
        # The client may have gone already.
        with contextlib.suppress(OSError):
            self._writer.get_extra_info("socket").setsockopt(level, name, value)

    def _abort(self, is_answer: bool) -> None:
        if is_answer:
            self._set_option(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        if not self._speaks_h2:
            # Hypercorn does not read the end behind a request that it has not parsed.
            self.task.cancel()


async def serve_http(
    app: Any,
    listening: socket.socket,
    stopping: Callable[[], Awaitable[object]],
    bounds: Bounds | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve an application on a socket that listens already, until `stopping` returns; requests
    that run then have `stop_s` to end. The process's signals stay its own.

    Raises:
        LifespanFailureError: the application could not begin.
    """
    bounds = bounds or Bounds()
    loop, kept, served = asyncio.get_running_loop(), Connections(bounds), set[_Streams]()
    state: Any = {}
    config = Config.from_mapping(
        # The application's failures alone reach it; whoever reaches the port could fill others.
        errorlog=logging.getLogger("hypercorn.error"),
        h11_max_incomplete_size=bounds.head_bytes,
        h2_max_concurrent_streams=bounds.streams,
        include_server_header=False,
        keep_alive_max_requests=sys.maxsize,
        keep_alive_timeout=None,
    )

    async def serve(streams: Any) -> None:
        await TCPServer(streams, loop, config, streams, state, streams, streams)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        streams = _Streams(serve, app, kept, reader, writer)
        served.add(streams)
        streams.task.add_done_callback(lambda _: served.discard(streams))

    with contextlib.closing(listening):
        lifespan = Lifespan(ASGIWrapper(app), config, loop, state)
        living = loop.create_task(lifespan.handle_lifespan())
        await lifespan.wait_for_startup()
        if living.done():
            await living
        try:
            server = await asyncio.start_server(
                accept, sock=listening, backlog=min(BACKLOG, bounds.connections), ssl=tls,
                ssl_handshake_timeout=bounds.head_s if tls else None,
            )  # fmt: skip
            try:
                await stopping()
            finally:
                server.close()
                await _drain(served, bounds.stop_s)
        finally:
            await lifespan.wait_for_shutdown()
            await living


async def _drain(served: set[_Streams], stop_s: float) -> None:
    """Close what is idle; requests that run end, and then as those of clients that go away."""
    for streams in served:
        streams.terminated.set()
    for is_first in (True, False):
        if served:
            await asyncio.wait([each.task for each in served], timeout=stop_s)
        for streams in list(served):
            streams.connection.cut_off() if is_first else streams.task.cancel()
    # What they use is closed next.
    await asyncio.gather(*(each.task for each in served), return_exceptions=True)
