"""HTTP/1.1 on a socket: uvicorn with h11's strict parser, and the bounds that these lack."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from quart import Quart
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from solward_server.listening import BACKLOG

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope

# A transfer waits up to 45 s for its confirmation; its record is stored before it is sent, so a
# stop need not wait that long.
GRACEFUL_STOP_S = 10.0
# Of a request's line and headers. One that came with the last bytes of what is larger is read.
MAX_HEAD_BYTES = 64 * 1024
# From a connection's beginning, or a head's first byte, to the head's end, however bytes trickle;
# and for the rest of a request that is answered already.
HEAD_S = 30.0
# How long a connection is kept without a request.
KEEP_ALIVE_S = 75.0
# How long a client may leave what it was sent unread: Quart's own bound of a response.
UNREAD_S = 60.0
MAX_CONNECTIONS = 1_024
# The time in which a new connection's request is read before another connection is closed for it.
CROWDED_S = 0.02
# How often the above are looked at.
TICK_S = 1.0
# What a process wants to open: its connections, those to nodes and databases, and plugins' pipes.
OPEN_FILES = 8 * MAX_CONNECTIONS

_Waiting = dict["BoundedProtocol", float]


class Connections(ServerState):
    """All connections of a server, and since when which of their clients are waited for.

    Attributes:
        heads: connections without a whole request, or whose last one is answered but not whole.
        idle: connections whose requests are answered, kept for a next one or closed once that is
            read.
        bodies: connections whose request runs and has not come whole: the application bounds how
            long it waits for the rest.
        unread: connections whose client does not read.
    """

    def __init__(self, most: int) -> None:
        """Where there are more than `most`, those are closed first that have waited longest for a
        request's head, then those that have been idle longest, then those that have waited longest
        for a body; none whose request has come whole and runs. There are never more than twice as
        many, of which the newest has waited shortest."""
        super().__init__()
        self.heads: _Waiting = {}
        self.idle: _Waiting = {}
        self.bodies: _Waiting = {}
        self.unread: _Waiting = {}
        self.ending = False
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._trimming: asyncio.TimerHandle | None = None
        self._tick()

    def add(self, new: BoundedProtocol) -> None:
        """Take a connection that was made, or refuse it."""
        if self.ending:
            new.cut_off()
            return
        self.heads[new] = self._loop.time()
        if len(self.connections) > 2 * self._most:
            self._close_longest()
        elif len(self.connections) > self._most and self._trimming is None:
            # What waits may have its request there already, unread.
            self._trimming = self._loop.call_later(CROWDED_S, self._trim)

    def remove(self, lost: BoundedProtocol) -> None:
        """Forget a connection, which is closed or about to be."""
        self.connections.discard(cast(Any, lost))
        for waiting in (self.heads, self.idle, self.bodies, self.unread):
            waiting.pop(lost, None)
        if not self.connections:
            self._gone.set()

    async def end(self) -> None:
        """Close what is idle; requests that run have `GRACEFUL_STOP_S` to end, and then end as
        those of clients that go away."""
        self.ending = True
        until = self._loop.time() + GRACEFUL_STOP_S
        for connection in self._all():
            connection.shutdown()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=GRACEFUL_STOP_S)
        if self.connections:
            self._gone.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._gone.wait()
        for connection in self._all():
            connection.cut_off()
        if self._trimming is not None:
            self._trimming.cancel()
        # What they use is closed next.
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self._timer.cancel()

    def _all(self) -> list[BoundedProtocol]:
        return cast("list[BoundedProtocol]", list(self.connections))

    def _trim(self) -> None:
        self._trimming = None
        while len(self.connections) > self._most and (self.heads or self.idle or self.bodies):
            self._close_longest()

    def _close_longest(self) -> None:
        next(iter(self.heads or self.idle or self.bodies)).cut_off()

    def _tick(self) -> None:
        self.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        now = self._loop.time()
        for waiting, most in (
            (self.heads, HEAD_S),
            (self.idle, KEEP_ALIVE_S),
            (self.unread, UNREAD_S),
        ):
            for connection in list(_overdue(waiting, now - most)):
                del waiting[connection]
                connection.end()
        self._timer = self._loop.call_later(TICK_S, self._tick)


def _overdue(waiting: _Waiting, before: float) -> Iterator[BoundedProtocol]:
    for connection, since in waiting.items():
        if since > before:
            return
        yield connection


class BoundedProtocol(H11Protocol):
    """A connection of uvicorn's, which waits for ever for heads, bodies and readers."""

    def __init__(self, config: uvicorn.Config, server_state: Connections) -> None:
        """See `H11Protocol`."""
        super().__init__(config, server_state, {})
        self._all = server_state
        self.app = cast(Any, self._answer)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        if self.client is None:
            # It is gone already; without an address no limit would count its requests.
            transport.abort()
        else:
            self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `H11Protocol`."""
        super().connection_lost(exc)
        self._all.remove(self)

    def data_received(self, data: bytes) -> None:
        """Parse the data; a head's time runs from its first byte."""
        self._all.idle.pop(self, None)
        if len(data) <= MAX_HEAD_BYTES:
            super().data_received(data)
        else:
            self._receive_parts(data)
        if self._is_answered() or self.transport.is_closing():
            self._all.heads.setdefault(self, self.loop.time())
        else:
            self._all.heads.pop(self, None)
        self._note_body()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is malformed, with the status that the parser has for it, and close.

        uvicorn calls it while it handles the parser's error.
        """
        error = sys.exception()
        assert isinstance(error, h11.RemoteProtocolError)
        self._refuse(error.error_status_hint)

    def on_response_complete(self) -> None:
        """Go on with the next request, or begin to wait for it, or for the rest of this one."""
        self.server_state.total_requests += 1
        self._all.bodies.pop(self, None)
        if self.transport.is_closing():
            # As soon as the client has read the response.
            self._all.idle[self] = self.loop.time()
            return
        self.flow.resume_reading()
        if self.conn.their_state is not h11.DONE:
            self._all.heads[self] = self.loop.time()
            return
        self.conn.start_next_cycle()
        self.handle_events()
        if self._is_answered():
            self._all.idle[self] = self.loop.time()
        self._note_body()

    def pause_writing(self) -> None:
        """See `H11Protocol`."""
        super().pause_writing()
        self._all.unread[self] = self.loop.time()

    def resume_writing(self) -> None:
        """See `H11Protocol`."""
        super().resume_writing()
        self._all.unread.pop(self, None)

    def shutdown(self) -> None:
        """Close the connection, after its response where a request runs."""
        if self._is_answered():
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def end(self) -> None:
        """Close the connection, whose client has been waited for long enough."""
        if self.transport.get_write_buffer_size():
            # It does not read, so `close` would wait for it.
            self.cut_off()
        else:
            self.transport.close()

    def cut_off(self) -> None:
        """Close the connection at once; a request that runs ends as if its client had."""
        self._disconnect()
        self._all.remove(self)
        self.transport.abort()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Refuse it: no address is one of a websocket, and no request has two framings."""
        self._refuse(400)

    def _should_upgrade(self) -> bool:
        # Called with each head. Of a body with a length and chunks a proxy may have read one and
        # the parser the other; the rest would be a request of whoever comes next (RFC 9112, 6.3).
        names = {name for name, _ in self.headers}
        if b"content-length" in names and b"transfer-encoding" in names:
            return True
        # A client that offers another protocol than that is answered by this one.
        return self._get_upgrade() == b"websocket"

    def _receive_parts(self, data: bytes) -> None:
        # The parser looks at a head's size only where its end has not come.
        for begin in range(0, len(data), MAX_HEAD_BYTES + 1):
            if not self.transport.is_closing():
                super().data_received(data[begin : begin + MAX_HEAD_BYTES + 1])

    def _refuse(self, status: int) -> None:
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            refused = h11.Response(status_code=status, headers=headers + self._all.default_headers)
            self.transport.write(self.conn.send(refused) + self.conn.send(h11.EndOfMessage()))
        self._disconnect()
        self.transport.close()

    def _note_body(self) -> None:
        if self.conn.their_state is h11.SEND_BODY and not self._is_answered():
            self._all.bodies.setdefault(self, self.loop.time())
        else:
            self._all.bodies.pop(self, None)

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _disconnect(self) -> None:
        if not self._is_answered():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.flow.resume_writing()

    async def _answer(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        cycle = self.cycle
        try:
            await self.config.loaded_app(scope, receive, send)
        finally:
            if cycle.response_started and not cycle.response_complete:
                # The client must not take what it got for all.
                self.cut_off()


async def serve_http(
    app: Quart,
    listening: socket.socket,
    stopping: Callable[[], Awaitable[object]],
    *,
    most_connections: int | None = None,
) -> None:
    """Serve an application on a socket that listens already, until `stopping` returns; requests
    that run then have `GRACEFUL_STOP_S` to end. The process's signals stay its own.

    Args:
        most_connections: that are kept open; by default `MAX_CONNECTIONS`, or a quarter of the
            files that the process may open.
    """
    config = uvicorn.Config(
        cast(Any, app),
        http=BoundedProtocol,
        ws="none",
        log_config=None,
        # Whoever reaches the port could fill the log with what is malformed.
        log_level="error",
        access_log=False,
        # A caller is who is connected, whatever a header says.
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        # Without, a pipelined request begins as the caller of the one before it.
        reset_contextvars=True,
    )
    config.load()
    loop = asyncio.get_running_loop()
    with contextlib.closing(listening):
        await app.startup()
        try:
            most = most_connections or _connections_allowed()
            connections = Connections(most)
            server = await loop.create_server(
                lambda: BoundedProtocol(config, connections),
                sock=listening,
                # All of it is accepted at once.
                backlog=min(BACKLOG, most),
            )
            try:
                await stopping()
            finally:
                server.close()
                await connections.end()
        finally:
            await app.shutdown()


def _connections_allowed() -> int:
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = OPEN_FILES if hard == unlimited else min(hard, OPEN_FILES)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MAX_CONNECTIONS if soft == unlimited else min(MAX_CONNECTIONS, soft // 4)
