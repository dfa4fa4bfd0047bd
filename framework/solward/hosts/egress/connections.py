"""Connections for plugin hosts' requests: resolve a name here, check the address, then connect.

The limits of requests and answers, and of how fast answers are read, are also here.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import h11
import httpcore

from solward.support.streams import Stream
from solward.types.errors import SkillError
from solward.types.manifest import Site


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests.

    Attributes:
        request_bytes, response_bytes: size of a body as it is sent, possibly compressed.
        header_bytes: size of all headers of one message together.
        requests: requests of one running call, refused ones included.
        refused: number of requests of one running call at which its host is ended.
        at_once: requests of one tenant at a time; more wait.
        total_s: seconds for one request, its answer included.
        connect_s: seconds until there is a connection.
        head_bytes: bytes read until an answer's head is complete, interim heads (1xx) included.
        chunks_a_second: chunks of all answers of one tenant that are read at full speed.
        encoded: whether answers may be compressed; their decoded size is not counted. An answer
            from a site that gets a secret may never be compressed.
    """

    request_bytes: int = 8 << 20
    response_bytes: int = 32 << 20
    header_bytes: int = 32 << 10
    requests: int = 60
    refused: int = 1_000
    at_once: int = 16
    total_s: float = 600.0
    connect_s: float = 15.0
    head_bytes: int = 64 << 10
    chunks_a_second: int = 2_000
    encoded: bool = True


LIMITS: Final = Limits()


def request_too_large(most: int) -> SkillError:
    return SkillError("too_large", f"The request's body is larger than {most} bytes")


def answer_too_large(site: Site, limits: Limits) -> SkillError:
    return SkillError(
        "too_large", f"The answer of {site} is larger than {limits.response_bytes} bytes"
    )


class ReadPace:
    """The limit of chunks read for one tenant, because even a small chunk costs loop time."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._paid_until = 0.0

    async def spend(self, chunks: int) -> None:
        """Count chunks, and wait while their number is a second or more ahead of the rate."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now - 1.0) + chunks / self._rate
        if self._paid_until > now:
            await asyncio.sleep(self._paid_until - now)


@dataclass(slots=True)
class AnswerReading:
    """The progress of reading one answer from a connection.

    Attributes:
        is_whole: whether the whole answer came, so that its connection may be used again.
        abort: closes the answer's connection at once; None before there is a connection.
    """

    site: Site
    limits: Limits
    pace: ReadPace
    received: int = 0
    last: int = 0
    has_head: bool = False
    is_whole: bool = False
    abort: Callable[[], object] | None = None

    def hang_up(self) -> None:
        """Close the connection unless its answer was read whole; a cancelled httpcore may not."""
        if not self.is_whole and self.abort is not None:
            self.abort()

    async def wait_to_read(self, max_bytes: int) -> int:
        """Wait until more bytes may be read, and return their maximum number.

        Raises:
            SkillError: `too_large`.
        """
        limits = self.limits
        # The allowance above the limit is for the lengths and extensions of chunks.
        if self.received > limits.response_bytes * 5 // 4 + limits.head_bytes:
            raise answer_too_large(self.site, limits)
        if self.has_head:
            return max_bytes
        if self.received >= limits.head_bytes:
            raise SkillError(
                "too_large",
                f"{self.site} sent more than {limits.head_bytes} bytes before its headers ended",
            )
        if self.received:
            # Most heads are complete after the first read. Later reads may hold many interim heads,
            # and the parser stops at none of them.
            await self.pace.spend(1 + self.last // _SMALLEST_HEAD)
            await asyncio.sleep(0)
        return min(max_bytes, _HEAD_READ)


_HEAD_READ: Final = 4096
_SMALLEST_HEAD: Final = 32
current_reading: Final[ContextVar[AnswerReading | None]] = ContextVar(
    "egress_reading", default=None
)
"""The answer that the running task reads; the connection counts received bytes in it."""


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""Resolves a name and a port to the name's addresses. Raises OSError."""
Dial = Callable[[str, int, float | None], Awaitable[httpcore.AsyncNetworkStream]]
"""Connects to a checked address and port within seconds. Raises httpcore's exceptions."""


def _parse_networks(listed: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(map(ipaddress.ip_network, listed.split()))


# The special-purpose networks of IANA's lists, and public addresses of clouds' metadata services.
_REFUSED: Final = _parse_networks("""
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
    192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16
    192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20
""")
# The only part of IPv6 that is allocated to networks; loopback, private and link-local addresses,
# multicast, and IPv4 addresses mapped to IPv6 are outside it.
_UNICAST: Final = ipaddress.ip_network("2000::/3")
_PRIVATE: Final = _parse_networks("""
    10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 ::1/128 fc00::/7
""")
# Maximum number of a name's addresses that are tried.
_MAX_ADDRESSES: Final = 4
# The limit that httpcore itself has for an answer's head.
_MAX_HEAD: Final = 100 << 10
_ANSWER_EVENTS: Final = (h11.InformationalResponse, h11.Response, h11.Data)


def is_public(address: Address) -> bool:
    """Return whether an address is public, so that a machine on the Internet can have it."""
    if address.version == 6 and (address not in _UNICAST or address.scope_id is not None):
        return False
    return not any(address in each for each in _REFUSED if each.version == address.version)


class CheckedConnections(httpcore.AsyncNetworkBackend):
    """A network backend that resolves, checks and connects in one step, with a single look-up.

    httpcore does TLS, and verifies the certificate for the site's name.
    """

    def __init__(self, resolve: Resolve, dial: Dial, *, private: bool) -> None:
        self._resolve = resolve
        self._dial = dial
        self._private = private

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                found = list(await self._resolve(host, port))
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        except OSError:
            raise httpcore.ConnectError from None
        allowed = [each for each in found if self._is_allowed(host, each)]
        if not allowed:
            raise SkillError(
                "address_refused",
                f"{host} has no address that plugins may call. In private networks and on this"
                " machine, they may call only what the operator configured",
            )
        failure: Exception = httpcore.ConnectError()
        for address in allowed[:_MAX_ADDRESSES]:
            left = None if timeout is None else timeout - (time.monotonic() - begun)
            if left is not None and left <= 0:
                raise httpcore.ConnectTimeout
            try:
                stream = await self._dial(address, port, left)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            if not self._private and _is_this_machine(stream):
                await stream.aclose()
                raise SkillError("address_refused", f"{host} is this machine")
            return _LimitedStream(stream)
        raise failure

    def _is_allowed(self, host: str, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        if not self._private:
            return is_public(address)
        # The operator configured this address, or a name in a network of their own.
        return (
            text == host
            or is_public(address)
            or any(address in each for each in _PRIVATE if each.version == address.version)
        )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _LimitedStream(httpcore.AsyncNetworkStream):
    """A connection that limits the answers read from it. After bytes beyond an answer, it is not
    used again: they would be parsed as the answer to the next request."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._is_asking = False
        # A second parser of the same bytes, because httpcore's does not say what it left unread.
        self._answer: h11.Connection | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._is_asking = False
        reading = current_reading.get()
        if reading is None:
            return await self._stream.read(max_bytes, timeout)
        data = await self._stream.read(await reading.wait_to_read(max_bytes), timeout)
        reading.last = len(data)
        reading.received += reading.last
        if self._answer is not None:
            # httpcore's own parser reports what is wrong with an answer.
            with suppress(h11.RemoteProtocolError):
                self._answer.receive_data(data)
                while isinstance(self._answer.next_event(), _ANSWER_EVENTS):
                    pass
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not self._is_asking:
            self._is_asking = True
            self._begin_answer(method=buffer.partition(b" ")[0])
        reading = current_reading.get()
        if reading is not None and isinstance(self._stream, Stream):
            # A request is written before its answer is read, so `abort` is set in time.
            reading.abort = self._stream.abort
        await self._stream.write(buffer, timeout)

    def _begin_answer(self, method: bytes) -> None:
        self._answer = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._answer.send(h11.Request(method=method, target="/", headers=[("Host", "-")]))
        self._answer.send(h11.EndOfMessage())

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _LimitedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and self._answer is not None and self._answer.trailing_data[0]:
            return True
        return self._stream.get_extra_info(info)


def _is_this_machine(stream: httpcore.AsyncNetworkStream) -> bool:
    """Return whether both ends have the same address, so that the site is this machine."""
    here, there = stream.get_extra_info("client_addr"), stream.get_extra_info("server_addr")
    return bool(here and there and here[0] == there[0])


class SystemResolver:
    """The machine's resolver, in threads of its own.

    A look-up may last as long as the name's servers like, even if nobody waits for it any more. In
    the loop's own threads it would block the service.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOK_UPS, "egress-resolver")

    async def __call__(self, host: str, port: int) -> list[str]:
        look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


_LOOK_UPS: Final = 2
