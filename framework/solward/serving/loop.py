"""Serves an application with Hypercorn until it is stopped, with limits on each connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.lifespan import Lifespan
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config

from solward.serving.bounds import App, Bounds, Connection, Connections, Request

BACKLOG = 1_024
_READ_BYTES = 64 * 1024
_MOST_LINES = 256
_LONGEST_LINE = 4 * 1024
_HEAD_END = re.compile(rb"\n\r?\n")
# Request heads to refuse. For each of the first three, h11 would try every way to split a line.
_NO_HEAD = re.compile(rb"[\x00\x0b\x0c]|\r(?!\n)|\n[ \t]|\APRI \* |(?i:\nupgrade:[^\n]*websocket)")
_OFFER = re.compile(rb"(?i)(?<=\n)upgrade(?=:[ \t]*h2c[ \t]*\r?\n)")
_FRAMING = re.compile(rb"(?i)\n(content-length|transfer-encoding)[ \t]*:")
_LENGTH = re.compile(rb"(?i)\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r?\n")
_LAST = re.compile(
    rb"(?i)\A[^\n]* http/1\.0\r?\n|\nconnection:(?:[^\n]*,)?[ \t]*close[ \t]*[,\r\n]"
)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
# Hypercorn answers these heads with 400.
_REFUSED, _BAD_CHUNK = b"\r\n", b"-\r\n"


class _Streams:
    """Acts as a connection's reader, writer, context and application for Hypercorn."""

    def __init__(
        self,
        serve: Callable[[Any], Awaitable[None]],
        app: App,
        kept: Connections,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._app, self._reader, self._writer = app, reader, writer
        # Attributes of a context. A shared event would let an idle connection outlive its client.
        self.event_class, self.terminated = WorkerContext.event_class, asyncio.Event()
        # Attributes of a writer.
        self.get_extra_info, self.drain = writer.get_extra_info, writer.drain
        self.wait_closed, self.write = writer.wait_closed, writer.write
        self._parts, self._came, self._is_over = self._requests(), bytearray(), False
        # Without this option, an answer's body waits until the client has acknowledged the head.
        self._set_option(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.task = asyncio.get_running_loop().create_task(self._run(serve))
        self.connection = Connection(kept, self._abort_connection)

    async def _run(self, serve: Callable[[Any], Awaitable[None]]) -> None:
        try:
            # A client can make Hypercorn fail, which is not an error of this server.
            with contextlib.suppress(Exception):
                await serve(self)
        finally:
            self.connection.kept.remove(self.connection)
            self._writer.transport.abort()

    async def __call__(self, scope: Any, receive: Any, send: Any, *_spawners: Any) -> None:
        if self.connection in self.connection.kept.all:
            try:
                await Request(self.connection, receive, send).run(self._app, scope)
            except asyncio.CancelledError:
                # Hypercorn notifies the stream, which would wait for ever if the connection failed.
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_later(1.0, task.cancel)
                raise
            if self._writer.is_closing() and not self.connection.running:
                # Hypercorn would wait for ever to parse a request that came after the last one.
                self.task.cancel()

    async def mark_request(self) -> None:
        """Count a request, for which the application is called next."""
        self.connection.begin()

    def at_eof(self) -> bool:
        """Return whether the client has ended its stream; then Hypercorn stops waiting too."""
        if self._is_over:
            self.terminated.set()
        return self._is_over

    async def read(self, _most: int) -> bytes:
        """Read a part of a request, or nothing at the end."""
        return await anext(self._parts, b"")

    async def _requests(self) -> AsyncIterator[bytes]:
        """Yield each request in parts: its whole head, then its body.

        Hypercorn gets no bytes of the next request, which could spoil the answer to this one.
        """
        try:
            while head := await self._read_head():
                yield head
                if head is _REFUSED:
                    break
                if length := _LENGTH.search(head):
                    body = self._sized_body(int(length[1]))
                else:
                    body = self._chunked_body() if _FRAMING.search(head) else self._sized_body(0)
                async for part in body:
                    yield part
                    if part is _BAD_CHUNK:
                        return
                if _LAST.search(head):
                    while await self._read_more():
                        self._came.clear()
        finally:
            self._is_over = True

    async def _read_head(self) -> bytes:
        """Return a whole head without its offer of HTTP/2; `_REFUSED` if Hypercorn must not parse
        the head; or the remaining bytes if the client has ended its stream."""
        connection, limit, searched = self.connection, self.connection.kept.bounds.head_bytes, 0
        while True:
            # Empty lines before a request are to be ignored (RFC 9112, 2.2).
            self._came = self._came.lstrip(b"\r\n")
            if self._came and self._came[0] <= 32:
                # No HTTP method begins with a control character, but TLS does.
                return _REFUSED
            end = _HEAD_END.search(self._came, searched)
            if end or len(self._came) > limit:
                break
            if self._came:
                connection.wait(connection.kept.heads)
            searched = max(0, len(self._came) - 3)
            if not await self._read_more():
                return self._take_bytes(limit)
        if not end or end.end() > limit:
            # Hypercorn refuses a head that has this size and no end.
            return self._take_bytes(limit + 1)
        head = self._take_bytes(end.end())
        lengths = _FRAMING.findall(head)
        if (
            _NO_HEAD.search(head)
            or head.count(b"\n") > _MOST_LINES
            # Two servers could read such a request differently (RFC 9112, 6.3).
            or len(lengths) > 1
            or (lengths and lengths[0].lower() == b"content-length" and not _LENGTH.search(head))
        ):
            return _REFUSED
        return _OFFER.sub(b"x-upgrade", head)

    async def _sized_body(self, left: int) -> AsyncIterator[bytes]:
        while left and (self._came or await self._read_more()):
            part = self._take_bytes(min(left, len(self._came)))
            left -= len(part)
            yield part

    async def _chunked_body(self) -> AsyncIterator[bytes]:
        """Yield a body in chunks, without extensions and trailers, because h11 tries every way to
        split a long extension."""
        while (found := _CHUNK.fullmatch(await self._read_line())) and (size := int(found[1], 16)):
            yield b"%x\r\n" % size
            async for part in self._sized_body(size):
                yield part
            if await self._read_line() != b"\r\n":
                yield _BAD_CHUNK
                return
            yield b"\r\n"
        line = b""
        for _ in range(_MOST_LINES if found else 0):
            if (line := await self._read_line()) in (b"", b"\r\n"):
                break
        yield b"0\r\n\r\n" if line == b"\r\n" else _BAD_CHUNK

    async def _read_line(self) -> bytes:
        """Return a line of a chunked body, or nothing at the end or if the line is too long."""
        while (end := self._came.find(b"\n")) < 0:
            if len(self._came) > _LONGEST_LINE or not await self._read_more():
                return b""
        return self._take_bytes(end + 1) if end < _LONGEST_LINE else b""

    async def _read_more(self) -> bool:
        part = await self._reader.read(_READ_BYTES)
        self._came += part
        return bool(part)

    def _take_bytes(self, count: int) -> bytes:
        part = bytes(self._came[:count])
        del self._came[:count]
        return part

    def write_eof(self) -> None:
        """End an answer; an incomplete answer must not look complete."""
        self.close() if self.connection.answering else self._writer.write_eof()

    def close(self) -> None:
        """Close the connection once the client has read its answer."""
        if self.connection.answering:
            self.connection.cut_off()
        else:
            self.connection.kept.unread.setdefault(self.connection, self.connection.kept.now())
            self._writer.close()

    def _set_option(self, level: int, name: int, value: int | bytes) -> None:
        # The client may have gone already.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._writer.get_extra_info("socket").setsockopt(level, name, value)

    def _abort_connection(self, is_answer: bool) -> None:
        if is_answer:
            self._set_option(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        # Hypercorn does not read the stream's end after a request that it has not parsed.
        self.task.cancel()


async def serve_http(
    app: Any,
    listening: socket.socket,
    stopping: Callable[[], Awaitable[object]],
    bounds: Bounds | None = None,
) -> None:
    """Serve an application by HTTP/1.1 on a listening socket until `stopping` returns. Running
    requests then have `stop_s` seconds to end. Signal handlers are not changed.

    Raises:
        LifespanFailureError: the application could not start.
    """
    bounds = bounds or Bounds()
    loop, kept, served = asyncio.get_running_loop(), Connections(bounds), set[_Streams]()
    state: Any = {}
    config = Config.from_mapping(
        # Only the application's failures are logged, because clients could fill any other log.
        errorlog=logging.getLogger("hypercorn.error"),
        h11_max_incomplete_size=bounds.head_bytes,
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
        try:
            await lifespan.wait_for_startup()
            if living.done():
                await living
            server = await asyncio.start_server(
                accept, sock=listening, backlog=min(BACKLOG, bounds.connections)
            )
            try:
                await stopping()
            finally:
                server.close()
                await _drain_connections(served, bounds.stop_s)
        finally:
            # If the start failed, there is nothing to stop.
            if not living.done():
                await lifespan.wait_for_shutdown()
            await living


async def _drain_connections(served: set[_Streams], stop_s: float) -> None:
    """Close idle connections, wait `stop_s` seconds for running requests, then abort these."""
    for streams in served:
        streams.terminated.set()
    # Wait for cancelled tasks too, because the caller closes the resources that they use.
    for attempt in range(3):
        if served:
            await asyncio.wait([each.task for each in served], timeout=stop_s)
        for streams in list(served):
            streams.task.cancel() if attempt else streams.connection.cut_off()
