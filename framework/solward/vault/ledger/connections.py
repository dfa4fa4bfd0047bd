"""Connections to one node: HTTP/1.1 by h11, on connections of the event loop.

httpx's client, and httpcore's pool inside it, are not used here for three reasons. A request that
is cancelled as it begins loses one of the pool's connections. If a node sends bytes beyond an
answer, the pool uses them as the answer to the next request. And the pool's locks are half of a
request's cost (docs/assurance/benchmarks.md).
"""

from __future__ import annotations

import asyncio
import socket
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.request import getproxies, proxy_bypass

import h11
import httpcore
import httpx

from solward.support.streams import Stream, dial_tcp
from solward.support.tls import tls_context
from solward.vault.ledger.answers import LongAnswer, NoAnswer

# Errors that mean that no complete answer came.
FAILURES: Final = (
    h11.RemoteProtocolError,
    httpcore.NetworkError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    OSError,
)
# The maximum bytes of an answer's head.
_MOST_HEAD: Final = 100 << 10
# The maximum number of heads read for an answer: interim heads (1xx) and the final head.
_MOST_HINTS: Final = 10
_READ: Final = 64 << 10
# The minimum bytes that a part of a body counts, because a shorter part takes as long to read.
_LEAST_PART: Final = 1024
# If one address of a host name does not answer within this time, the next address is tried.
_NEXT_ADDRESS_S: Final = 2.0
_PORTS: Final = {"http": 80, "https": 443}

_Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A node's answer over HTTP.

    Attributes:
        hang_up: closes the connection on which the answer came.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    hang_up: Callable[[], None]


class Connections:
    """The connections to the node at a URL, through the proxy that the environment names for it.

    Args:
        url: the node's URL; its user and password are sent as Basic credentials.
        headers: headers of every request.
        idle_s: seconds after which an idle connection is closed.
    """

    def __init__(self, url: httpx.URL, headers: _Headers, *, idle_s: float) -> None:
        self._url = url
        self._proxy = _proxy(url)
        self._target = url.raw_path
        self._headers = [(b"Host", url.netloc), *_credentials(b"Authorization", url), *headers]
        if self._proxy is not None and url.scheme == "http":
            self._target = b"http://%s%s" % (url.netloc, url.raw_path)
            self._headers += _credentials(b"Proxy-Authorization", self._proxy)
        self._idle_s = idle_s
        self._idle: deque[_Connection] = deque()
        self._used: set[_Connection] = set()
        self._is_closed = False

    async def post(self, body: bytes, most: int) -> Answer:
        """Post a body; cancelling the call closes its connection.

        Args:
            most: maximum bytes of the answer's body.

        Raises:
            NoAnswer, `FAILURES`.
        """
        if self._is_closed:
            raise NoAnswer("its connections are closed")
        connection = self._idle_connection() or await self._open_connection()
        self._used.add(connection)
        try:
            return await connection.post(self._target, self._headers, body, most)
        finally:
            self._used.discard(connection)
            if not self._is_closed and connection.is_ready_again():
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.abort()

    async def close(self) -> None:
        """Close every connection; unfinished requests fail."""
        self._is_closed = True
        for connection in (*self._idle, *self._used):
            connection.abort()
        # The event loop closes the sockets in its next turn.
        await asyncio.sleep(0)

    def _idle_connection(self) -> _Connection | None:
        """Return the last used idle connection; close connections that were idle for too long."""
        oldest = time.monotonic() - self._idle_s
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if not connection.stream.is_readable:
                return connection
            connection.abort()
        return None

    async def _open_connection(self) -> _Connection:
        first = self._proxy or self._url
        if first.scheme not in _PORTS:
            raise httpcore.UnsupportedProtocol
        stream = await _dial(_host_of(first), _port_of(first))
        if first.scheme == "https":
            stream = await stream.start_tls(tls_context(), _host_of(first))
        if self._proxy is None or self._url.scheme == "http":
            return _Connection(stream)
        await self._open_tunnel(stream, self._proxy)
        return _Connection(await stream.start_tls(tls_context(), _host_of(self._url)))

    async def _open_tunnel(self, stream: Stream, proxy: httpx.URL) -> None:
        """Ask a proxy for a tunnel to the node (RFC 9110, 9.3.6)."""
        there = self._url.netloc
        if self._url.port is None:
            there += b":%d" % _port_of(self._url)
        headers = [(b"Host", there), *_credentials(b"Proxy-Authorization", proxy)]
        tunnel = _Connection(stream)
        try:
            status = await tunnel.connect(there, headers)
        except BaseException:
            tunnel.abort()
            raise
        if status // 100 != 2:
            tunnel.abort()
            raise httpcore.ProxyError(f"HTTP {status}")


class _Connection:
    """One connection, with its state in h11."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.idle_since = 0.0
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)

    def is_ready_again(self) -> bool:
        """Return whether this open connection may be used again, because its answer has ended."""
        http = self._http
        is_over = http.our_state is h11.DONE and http.their_state is h11.DONE
        if not is_over or http.trailing_data[0]:
            return False
        http.start_next_cycle()
        return True

    def abort(self) -> None:
        """Close the connection at once."""
        self.stream.abort()

    async def post(self, target: bytes, headers: _Headers, body: bytes, most: int) -> Answer:
        """See `Connections.post`."""
        length = (b"Content-Length", b"%d" % len(body))
        request = h11.Request(method=b"POST", target=target, headers=[*headers, length])
        await self._send_events(request, h11.Data(data=body), h11.EndOfMessage())
        head = await self._read_head()
        answered = httpx.Headers(list(head.headers))
        if answered.get("Content-Encoding", "identity") != "identity":
            raise NoAnswer("its answer is compressed")
        found, parts = bytearray(), 0
        while isinstance(event := await self._next_event(), h11.Data):
            found += event.data
            parts += 1
            if max(len(found), parts * _LEAST_PART) > most:
                raise LongAnswer(most)
        return Answer(head.status_code, answered, bytes(found), self.abort)

    async def connect(self, there: bytes, headers: _Headers) -> int:
        """Request a tunnel; return the status of the answer."""
        await self._send_events(
            h11.Request(method=b"CONNECT", target=there, headers=headers), h11.EndOfMessage()
        )
        return (await self._read_head()).status_code

    async def _send_events(self, *events: h11.Event) -> None:
        # A node may refuse a request before it has read all of it. Then the write fails, although
        # the answer has come.
        with suppress(httpcore.WriteError):
            await self.stream.write(b"".join(self._http.send(each) or b"" for each in events))

    async def _read_head(self) -> h11.Response:
        for _ in range(_MOST_HINTS):
            event = await self._next_event()
            if isinstance(event, h11.Response):
                return event
        raise h11.RemoteProtocolError("no answer")

    async def _next_event(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self.stream.read(_READ))
        if not isinstance(event, h11.Event):
            raise h11.RemoteProtocolError("the node ended HTTP")
        return event


async def _dial(host: str, port: int) -> Stream:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    *others, last = dict.fromkeys(str(address[0]) for *_, address in found)
    for address in others:
        with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
            return await dial_tcp(address, port, _NEXT_ADDRESS_S)
    return await dial_tcp(last, port, None)


def _host_of(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _port_of(url: httpx.URL) -> int:
    return url.port or _PORTS[url.scheme]


def _credentials(header: bytes, url: httpx.URL) -> _Headers:
    """Return the Basic credentials in a URL (RFC 7617)."""
    if not url.userinfo:
        return []
    return [(header, b"Basic " + b64encode(f"{url.username}:{url.password}".encode()))]


def _proxy(url: httpx.URL) -> httpx.URL | None:
    """Return the proxy in `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`; None if in `NO_PROXY`."""
    named = getproxies()
    address = named.get(url.scheme) or named.get("all")
    if not address or proxy_bypass(f"{url.host}:{_port_of(url)}"):
        return None
    return httpx.URL(address if "://" in address else f"http://{address}")
