"""Bounds of a uvicorn server's connections, whatever parses them: uvicorn has none.

For the servers beside the API, whose own are stricter and of one parser
(`solward_server.http_server`): the embedded ledger's and the dashboard's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

# The time in which a new connection's request is read before another connection is closed for it.
CROWDED_S = 0.02


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """What a server bears from whoever reaches its port; docs/operations.md states them.

    Attributes:
        connections: beyond so many, the one is closed whose request has been waited for longest,
            then the one that has been idle longest; none whose whole request has come and runs.
        request_s: the wait for a request's line, headers and body, however bytes trickle in.
        unread_s: how long a client may leave what it was sent unread.
        head_bytes: of a request's line and headers.
        tick_s: how often the waits are looked at.
    """

    connections: int = 1_024
    request_s: float = 30.0
    unread_s: float = 60.0
    head_bytes: int = 64 * 1024
    tick_s: float = 1.0


def bounded(protocol: type[Any], bounds: ConnectionBounds) -> type[Any]:
    """A class of connections for one server (`uvicorn.Config(http=...)`), within bounds.

    Connections that become WebSockets are no longer counted: their application knows them.

    Args:
        protocol: a class of uvicorn's for HTTP/1.1.
    """
    kept = _Connections(bounds)

    class Bounded(protocol):  # type: ignore[misc]
        _is_socket = False
        _head = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            kept.add(self)

        def connection_lost(self, exc: Exception | None) -> None:
            kept.forget(self)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            kept.begin(self)
            super().data_received(data)
            # Not of what came with the head's end.
            self._head = self._head + len(data) if self._is_answered() else 0
            if self._head > bounds.head_bytes:
                self.transport.abort()
            self._note()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._note(idle=True)

        def pause_writing(self) -> None:
            super().pause_writing()
            kept.unread[self] = self.loop.time()

        def resume_writing(self) -> None:
            super().resume_writing()
            kept.unread.pop(self, None)

        def handle_websocket_upgrade(self, *event: Any) -> None:
            self._is_socket = True
            kept.forget(self)
            super().handle_websocket_upgrade(*event)

        def _is_answered(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _note(self, *, idle: bool = False) -> None:
            if self._is_socket or self.transport.is_closing():
                kept.forget(self)
            elif self._is_answered():
                if idle:
                    kept.rest(self)
            elif not self.cycle.more_body:
                kept.run(self)

    return Bounded


class _Connections:
    """All connections of a server, and since when the client of which is waited for."""

    def __init__(self, bounds: ConnectionBounds) -> None:
        self._bounds = bounds
        self._all: set[Any] = set()
        self._requests: dict[Any, float] = {}
        self._idle: dict[Any, None] = {}
        self.unread: dict[Any, float] = {}
        self._ticking = False
        self._trimming = False

    def add(self, new: Any) -> None:
        self._all.add(new)
        self._requests[new] = new.loop.time()
        if len(self._all) > 2 * self._bounds.connections:
            self._cut_off(self._longest(new.loop))
        elif len(self._all) > self._bounds.connections and not self._trimming:
            # What waits may have its request there already, unread.
            self._trimming = True
            new.loop.call_later(CROWDED_S, self._trim, new.loop)
        if not self._ticking:
            self._ticking = True
            new.loop.call_later(self._bounds.tick_s, self._tick, new.loop)

    def begin(self, connection: Any) -> None:
        """Something came: of one that was idle, its next request begins."""
        if connection in self._idle:
            del self._idle[connection]
            self._requests[connection] = connection.loop.time()

    def run(self, connection: Any) -> None:
        """Its request has come whole."""
        self._requests.pop(connection, None)

    def rest(self, connection: Any) -> None:
        """Its request is answered; uvicorn closes it when the next one does not come."""
        self._requests.pop(connection, None)
        self._idle[connection] = None

    def forget(self, connection: Any) -> None:
        self._all.discard(connection)
        for waiting in (self._requests, self._idle, self.unread):
            waiting.pop(connection, None)

    def _trim(self, loop: asyncio.AbstractEventLoop) -> None:
        self._trimming = False
        while len(self._all) > self._bounds.connections and (self._requests or self._idle):
            self._cut_off(self._longest(loop))

    def _longest(self, loop: asyncio.AbstractEventLoop) -> Any:
        # One that has just come may have its request there, unread.
        longest = next(iter(self._requests), None)
        is_new = longest is None or loop.time() - self._requests[longest] < CROWDED_S
        return next(iter(self._idle)) if is_new and self._idle else longest

    def _cut_off(self, connection: Any) -> None:
        self.forget(connection)
        connection.transport.abort()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for waiting, most in (
            (self._requests, self._bounds.request_s),
            (self.unread, self._bounds.unread_s),
        ):
            for connection in [each for each, since in waiting.items() if since < now - most]:
                self._cut_off(connection)
        self._ticking = bool(self._all)
        if self._ticking:
            loop.call_later(self._bounds.tick_s, self._tick, loop)
