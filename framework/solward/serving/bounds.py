"""Limits on the number of a server's clients, and on the time that it waits for each client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

CLOSE = [(b"content-length", b"0"), (b"connection", b"close")]
# A request with a body has one of these headers (RFC 9112, 6).
FRAMINGS = {b"content-length", b"transfer-encoding"}
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on the resources that a port's clients can use; docs/how-to/operate.md lists them."""

    # The maximum number of open connections; for a moment there may be up to twice as many.
    connections: int = 1_024
    # The maximum size of a request's line and headers.
    head_bytes: int = 64 * 1024
    # Time for a whole head, or for the rest of a request that is already answered, to arrive.
    head_s: float = 30.0
    idle_s: float = 75.0
    # Time for a body to arrive; by default only the application limits it.
    body_s: float = math.inf
    # Time for a client to read the bytes that it was sent.
    unread_s: float = 60.0
    # A transfer waits up to 45 s for its confirmation; its record is stored before it is sent, so
    # a stop need not wait that long.
    stop_s: float = 10.0
    # Time to read a new connection's request before the server closes connections to make room.
    crowded_s: float = 0.02
    tick_s: float = 1.0


class Connections:
    """All connections of a server, each with the time when its wait for the client began.

    If there are too many, the server closes connections in `heads` first, then in `idle`, `bodies`
    and `unread`; in each list, the longest waiting first. A request that arrived whole is never cut
    off, unless its client does not read the answer.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.all: set[Connection] = set()
        self.heads, self.idle, self.bodies = (dict[Connection, float]() for _ in range(3))
        # The keys are requests, and connections that are closing.
        self.unread: dict[Any, float] = {}
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._ticking = self._trimming = False

    def add(self, new: Connection) -> None:
        """Count a new connection; the server may close another one to make room."""
        self.all.add(new)
        new.wait(self.heads)
        if len(self.all) > 2 * self.bounds.connections:
            self._close_longest_waiting()
        elif len(self.all) > self.bounds.connections and not self._trimming:
            # A waiting client's request may have arrived but not been read yet.
            self._trimming = True
            self._loop.call_later(self.bounds.crowded_s, self._close_excess)
        if not self._ticking:
            self._close_overdue()

    def remove(self, lost: Connection) -> None:
        """Forget a connection that is closed or about to close."""
        self.all.discard(lost)
        lost.wait(None)
        self.unread.pop(lost, None)

    def _close_excess(self) -> None:
        self._trimming = False
        while len(self.all) > self.bounds.connections and self._close_longest_waiting():
            pass

    def _close_longest_waiting(self) -> bool:
        now = self.now()
        for waiting, least_s in (
            # A new client's request may have arrived but not been read yet.
            (self.heads, self.bounds.crowded_s),
            (self.idle, 0.0),
            (self.bodies, 0.0),
            (self.unread, self.bounds.tick_s),
            (self.heads, 0.0),
        ):
            longest, since = next(iter(waiting.items()), (None, now))
            if longest is not None and since <= now - least_s:
                longest.cut_off()
                return True
        return False

    def _close_overdue(self) -> None:
        bounds, now = self.bounds, self.now()
        self._ticking = bool(self.all)
        if self._ticking:
            self._loop.call_later(bounds.tick_s, self._close_overdue)
        for waiting, most in (
            (self.heads, bounds.head_s),
            (self.idle, bounds.idle_s),
            (self.bodies, bounds.body_s),
            (self.unread, bounds.unread_s),
        ):
            for overdue in [each for each, since in waiting.items() if since < now - most]:
                overdue.cut_off()


class Connection:
    """A client's connection: its requests, and whether the server waits for the client."""

    def __init__(self, kept: Connections, abort: Callable[[bool], None]) -> None:
        """Add the connection to the server's connections.

        Args:
            abort: closes it at once; True says that a cut-off answer must not look whole.
        """
        self.kept, self._abort = kept, abort
        # Unanswered requests; unanswered requests that arrived whole; answers being sent.
        self.running = self.whole = self.answering = 0
        self._waiting: dict[Connection, float] | None = None
        kept.add(self)

    def wait(self, waiting: dict[Connection, float] | None) -> None:
        """Start a wait in a waiting list. None ends the wait; the same list continues it."""
        if waiting is not self._waiting:
            if self._waiting is not None:
                del self._waiting[self]
            self._waiting = waiting if self in self.kept.all else None
            if self._waiting is not None:
                self._waiting[self] = self.kept.now()

    def update_wait(self, waiting: dict[Connection, float]) -> None:
        """Wait in `waiting` unless a whole request is running; if no request runs, wait as idle."""
        self.wait(None if self.whole else waiting if self.running else self.kept.idle)

    def begin(self) -> None:
        """Count a request whose head has arrived."""
        self.running += 1
        self.update_wait(self.kept.heads)

    def cut_off(self) -> None:
        """Close the connection at once; its requests end as if the client had gone away."""
        self.kept.remove(self)
        self._abort(self.running > 0)


class Request:
    """Runs the application for one request and tracks the server's wait."""

    def __init__(self, connection: Connection, receive: Receive, send: Send) -> None:
        self._connection, self._receive, self._send = connection, receive, send
        self._waiting, self._reading = connection.kept.bodies, asyncio.Lock()
        self._begun = self._came = self._ended = False

    def cut_off(self) -> None:
        """Close the connection and stop waiting for its client."""
        self._connection.kept.unread.pop(self, None)
        self._connection.cut_off()

    async def run(self, app: App, scope: Any) -> None:
        """Call the application until the request has ended."""
        self._track_body({"more_body": any(name in FRAMINGS for name, _ in scope["headers"])})
        try:
            await app(scope, self.receive, self.send)
        except TimeoutError:
            # The client did not read the answer within the application's time limit.
            if not self._begun:
                raise
        except RuntimeError:
            # uvloop raises this error if the client is gone.
            if self._connection in self._connection.kept.all:
                raise
        finally:
            if not self._ended:
                if self._begun or not self._came:
                    # The answer must not look complete, and nobody reads the rest of the request.
                    self.cut_off()
                self._end()

    async def receive(self) -> Message:
        """Return the next part of the request, for its application."""
        async with self._reading:
            return self._track_body(await self._receive())

    async def send(self, message: Message) -> None:
        """Send a part of the answer, the last part only after the whole request has arrived."""
        connection, kind = self._connection, message["type"]
        if kind == "http.response.start":
            self._begun = True
            connection.answering += 1
        is_last = kind == "http.response.body" and not message.get("more_body")
        connection.answering -= is_last
        if is_last and not self._came:
            # Hypercorn closes a connection if its request ends after the answer.
            await self._pass_on({**message, "more_body": True})
            self._waiting = connection.kept.heads
            connection.update_wait(self._waiting)
            while not self._came:
                async with self._reading:
                    if not self._came:
                        self._track_body(await self._receive())
            message = {"type": kind, "body": b""}
        await self._pass_on(message)
        if is_last:
            self._end()

    async def _pass_on(self, message: Message) -> None:
        """Send a message, its body in pieces: each after the client has read the previous one."""
        body = memoryview(message.get("body", b""))
        while len(body) > _PIECE_BYTES:
            piece = bytes(body[:_PIECE_BYTES])
            await self._wait_for({**message, "body": piece, "more_body": True})
            body = body[_PIECE_BYTES:]
        await self._wait_for({**message, "body": bytes(body)} if body else message)

    async def _wait_for(self, message: Message) -> None:
        if self._ended:
            # A cancelled call leaves Quart's task of the view running; this ends it quietly.
            raise asyncio.CancelledError
        unread = self._connection.kept.unread
        unread[self] = self._connection.kept.now()
        try:
            # This waits until the client has read the parts before.
            await self._send(message)
        finally:
            unread.pop(self, None)

    def _track_body(self, message: Message) -> Message:
        if not self._ended:
            if not message.get("more_body") and not self._came:
                self._came = True
                self._connection.whole += 1
            self._connection.update_wait(self._waiting)
        return message

    def _end(self) -> None:
        connection = self._connection
        self._ended = True
        connection.running -= 1
        connection.whole -= self._came
        connection.update_wait(connection.kept.bodies)
