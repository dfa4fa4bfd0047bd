"""The connections to one node: httpcore's pool, which is httpx's own, without httpx's client.

The client's cookies, redirects and hooks serve no JSON-RPC call, and httpcore writes the head and
the body of a request apart (docs/benchmarks.md has what both cost).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from solward.support.streams import dial_tcp
from solward.support.tls import tls_context

# What the pool raises where there is no whole answer.
FAILURES: Final = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    OSError,
)


def pool(url: httpx.URL, *, idle_s: float) -> httpcore.AsyncConnectionPool:
    """The pool for the node at `url`, through the proxy that the environment names for it.

    It opens a connection for every request that finds none: who is cancelled while httpcore's own
    bound makes him wait takes a connection along for good.

    Args:
        idle_s: seconds after which an idle connection is closed.
    """
    return httpcore.AsyncConnectionPool(
        ssl_context=tls_context(),
        proxy=_proxy(url),
        max_connections=None,
        # With a lower bound httpcore closes idle ones while others are busy, and opens them again.
        max_keepalive_connections=None,
        keepalive_expiry=idle_s,
        network_backend=_Backend(),
    )


def target(url: httpx.URL) -> tuple[httpcore.URL, list[tuple[bytes, bytes]]]:
    """What is asked at `url`, and the headers that every request to it has: `Host`, and the
    credentials that the address holds."""
    headers = [(b"Host", url.netloc)]
    if url.userinfo:
        flow = httpx.BasicAuth(url.username, url.password).auth_flow(httpx.Request("POST", url))
        headers.append((b"Authorization", next(flow).headers["Authorization"].encode("ascii")))
    asked = httpcore.URL(
        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
    )
    return asked, headers


def _proxy(url: httpx.URL) -> httpcore.Proxy | None:
    """`HTTPS_PROXY` or `HTTP_PROXY`, else `ALL_PROXY`; none where `NO_PROXY` has the host, or the
    host and port."""
    named = getproxies()
    address = named.get(url.scheme) or named.get("all")
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    if not address or proxy_bypass(f"{url.host}:{port}"):
        return None
    proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
    return httpcore.Proxy(
        url=httpcore.URL(
            scheme=proxy.url.raw_scheme,
            host=proxy.url.raw_host,
            port=proxy.url.port,
            target=proxy.url.raw_path,
        ),
        auth=proxy.raw_auth,
    )


class _Backend(httpcore.AsyncNetworkBackend):
    """Connections of the event loop, with `_OneWrite` around each."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _OneWrite(await dial_tcp(host, port, timeout))


class _OneWrite(httpcore.AsyncNetworkStream):
    """A connection that sends a request, head and body, once its answer is asked for."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._unsent = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._unsent += buffer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            # A node may refuse a request before it has read it all: its answer is there.
            with suppress(httpcore.WriteError):
                await self._stream.write(unsent, timeout)
        return await self._stream.read(max_bytes, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _OneWrite(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
