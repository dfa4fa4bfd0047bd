"""The connection below an HTTP client: httpcore's stream on a transport of the event loop.

httpcore's own stream asks the kernel about every idle connection of a pool at each request, and
anyio keeps records of tasks at every write: together a fifth of the service's cost of a request.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, cast

import httpcore

# Unread bytes in this process; above it the kernel's own buffer fills, and the site waits.
_MOST: Final = 64 << 10
_INFO: Final = {"client_addr": "sockname", "server_addr": "peername", "ssl_object": "ssl_object"}


class Stream(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection, of one reader and one writer; made by `dial_tcp`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._ended = False
        self._error: Exception | None = None
        self._reading = True
        self._readable: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    @property
    def is_readable(self) -> bool:
        """True if the stream has unread bytes or ended, so that no other request may use it."""
        return self._ended or bool(self._received)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read up to `max_bytes` as httpcore does, and buffer at most about `_MOST` in advance."""
        if not self._received and not self._ended:
            self._readable = self._loop.create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._readable
            except TimeoutError:
                raise httpcore.ReadTimeout from None
            finally:
                self._readable = None
        if not self._received and self._error is not None:
            raise httpcore.ReadError from self._error
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        if not self._reading and len(self._received) < _MOST and not self._ended:
            self._reading = True
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write as httpcore does, and wait while the site has not read earlier bytes."""
        if not self._ended:
            self._transport.write(buffer)
        if self._writable is not None:
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.shield(self._writable)
            except TimeoutError:
                raise httpcore.WriteTimeout from None
        if self._ended:
            raise httpcore.WriteError from self._error

    async def aclose(self) -> None:
        """Close the stream at once, because the caller has its answer or no longer wants it."""
        self.abort()

    def abort(self) -> None:
        """Close the stream at once, from code that cannot await `aclose`."""
        self._transport.abort()
        self._end(None)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> Stream:
        """Start TLS as httpcore does, and close the connection if that fails.

        Bytes before the handshake are refused: anybody may have sent them, not only the site.
        """
        if self.is_readable:
            self.abort()
            raise httpcore.ConnectError
        try:
            async with asyncio.timeout(timeout):
                made = await self._loop.start_tls(
                    self._transport, self, ssl_context, server_hostname=server_hostname
                )
        except BaseException as error:
            self._transport.abort()
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout from None
            if isinstance(error, OSError):
                raise httpcore.ConnectError from error
            raise
        if made is None:
            raise httpcore.ConnectError
        self._transport = made
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return the value that httpcore asks for by name, `is_readable` without a system call."""
        if info == "is_readable":
            return self.is_readable
        return self._transport.get_extra_info(_INFO[info]) if info in _INFO else None

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received += data
        if len(self._received) >= _MOST and self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._wake(self._readable)

    def eof_received(self) -> None:
        """See `asyncio.Protocol`; the transport closes itself."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._end(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._wake(self._writable)
        self._writable = None

    def _end(self, error: Exception | None) -> None:
        self._ended, self._error = True, self._error or error
        self._wake(self._readable)
        self._wake(self._writable)

    def _wake(self, waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def dial_tcp(address: str, port: int, timeout: float | None) -> Stream:
    """Connect to an IP address, not a host name.

    Raises:
        httpcore.ConnectTimeout, httpcore.ConnectError.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            _, made = await loop.create_connection(Stream, address, port)
    except TimeoutError:
        raise httpcore.ConnectTimeout from None
    except OSError as error:
        raise httpcore.ConnectError from error
    return made
