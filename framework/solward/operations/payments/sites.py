"""The HTTP client of payments: one request to one site, addresses checked, answers bounded.

By https alone, but for loopback addresses that the operator named. A name is resolved here and the
connection made to an address that was checked, as for plugin hosts (`hosts/egress`). Nothing is
followed, decoded, remembered between requests or read from the environment.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final
from weakref import WeakValueDictionary

import httpcore

from solward.hosts.egress.addresses import (
    CheckedConnections,
    Dial,
    Resolve,
    SystemResolver,
)
from solward.hosts.egress.limits import AnswerReading, Limits, ReadPace, current_reading
from solward.hosts.egress.messages import host_header, waiting
from solward.operations.payments.requests import SellerRequest, with_headers
from solward.settings.addresses import is_loopback
from solward.support.clean_text import cleaned
from solward.support.streams import dial_tcp
from solward.support.tls import tls_context
from solward.types.errors import PaymentRefused, SkillError
from solward.types.manifest import Site, site_name
from solward.types.payment import HttpAnswer
from solward.types.roles import ADMIN, is_key

MAX_ANSWER_BYTES: Final = 1 << 20
"""Of an answer's body that is kept: reading stops there."""
_OF_ONE: Final = 4
_LIMITS: Final = Limits(response_bytes=2 * MAX_ANSWER_BYTES, connect_s=10.0, at_once=32)
# Sent where the caller gives none of the name.
_DEFAULTS: Final = (("Accept", "*/*"), ("User-Agent", f"solward/{version('solward')}"))
# Of the connection; and what would be kept of a visit, which nothing is.
_DROPPED: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "set-cookie",
        "set-cookie2",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """What a site answered.

    Attributes:
        truncated: the body has more than was read, or ended before it was whole.
        broken: it ended, or took too long, before it was whole.
    """

    answer: HttpAnswer
    truncated: bool = False
    broken: bool = False


class Sites:
    """Requests to sellers, of one service."""

    def __init__(
        self,
        private: Sequence[str] = (),
        *,
        resolve: Resolve | None = None,
        dial: Dial | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        """Args:
        private: sites, as grants name them, that may be on this machine or a private network.
        resolve: instead of the machine's own resolver.
        dial: instead of a TCP connection.
        trusted: certificates; those of httpx, or of SSL_CERT_FILE, where it is not given.
        """
        self._private = frozenset(private)
        self._resolve = resolve
        self._dial = dial or dial_tcp
        self._trusted = trusted
        self._pools: dict[bool, httpcore.AsyncConnectionPool] = {}
        # Sellers may take long to answer, and whoever asks them may be many: neither keeps the
        # operator and agents out, nor one principal the others.
        self._gates = {is_keys: asyncio.Semaphore(_LIMITS.at_once) for is_keys in (True, False)}
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._pace = ReadPace(_LIMITS.chunks_a_second)

    def check(self, site: Site) -> None:
        """Whether requests may go to a site at all.

        Raises:
            PaymentRefused: `https_only`.
        """
        if site.scheme == "https" or (self._is_private(site) and is_loopback(site.host)):
            return
        raise PaymentRefused(
            "https_only",
            f"{site_name(site)} must be called by https; http is for loopback addresses that"
            " PAYMENTS_PRIVATE_SITES names",
        )

    async def request(
        self,
        request: SellerRequest,
        within_s: float,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        who: str = ADMIN,
    ) -> SiteAnswer:
        """Make one request; a principal has `_OF_ONE` under way at most.

        Args:
            headers: in place of the caller's of the same name.
            who: the principal that asks.

        Raises:
            PaymentRefused: `https_only`, `address_refused`, `answer_too_large`, or `no_answer`:
                whether the request came there is not known.
        """
        site = request.site
        self.check(site)
        reading = AnswerReading(site, _LIMITS, self._pace)
        until = asyncio.get_running_loop().time() + within_s
        own = self._own.setdefault(who, asyncio.Semaphore(_OF_ONE))
        try:
            async with AsyncExitStack() as stack:
                async with waiting(until):
                    await stack.enter_async_context(own)
                    await stack.enter_async_context(self._gates[is_key(who)])
                stack.callback(reading.hang_up)
                return await self._answered(request, headers, reading, until)
        except SkillError as error:
            raise _refusal(error, site) from None

    async def close(self) -> None:
        """Close every connection."""
        while self._pools:
            _, pool = self._pools.popitem()
            await pool.aclose()

    async def _answered(
        self,
        request: SellerRequest,
        headers: tuple[tuple[str, str], ...],
        reading: AnswerReading,
        until: float,
    ) -> SiteAnswer:
        site = request.site
        async with waiting(until):
            current_reading.set(reading)
            response = await self._pool(site).handle_async_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(
                        scheme=site.scheme,
                        host=site.host.strip("[]"),
                        port=site.port,
                        target=request.path,
                    ),
                    headers=_headers(request, headers),
                    content=request.body,
                    extensions={"timeout": {"connect": _LIMITS.connect_s}},
                )
            )
        reading.has_head = True
        try:
            if not 200 <= response.status <= 599:
                raise SkillError("http_remote_protocol_error", "What it answered is not HTTP")
            body, is_whole, is_broken = await self._body(response, reading, until)
        finally:
            await response.aclose()
        answer = HttpAnswer(
            url=request.url,
            method=request.method,
            status=response.status,
            headers=tuple(
                (name.decode("latin-1"), cleaned(value.decode("latin-1")))
                for name, value in response.headers
                if name.lower().decode("latin-1") not in _DROPPED
            ),
            body=body,
        )
        return SiteAnswer(answer, truncated=not is_whole, broken=is_broken)

    async def _body(
        self, response: httpcore.Response, reading: AnswerReading, until: float
    ) -> tuple[bytes, bool, bool]:
        """At most `MAX_ANSWER_BYTES`; whether that is all, and whether it broke off."""
        body = bytearray()
        assert isinstance(response.stream, AsyncIterable)
        chunks = aiter(response.stream)
        try:
            while len(body) < MAX_ANSWER_BYTES:
                async with waiting(until):
                    chunk = await anext(chunks, None)
                    await self._pace.spend(1)
                if chunk is None:
                    reading.is_whole = True
                    return bytes(body), True, False
                body += chunk
        except SkillError:
            return bytes(body[:MAX_ANSWER_BYTES]), False, True
        return bytes(body[:MAX_ANSWER_BYTES]), False, False

    def _is_private(self, site: Site) -> bool:
        return site_name(site) in self._private

    def _pool(self, site: Site) -> httpcore.AsyncConnectionPool:
        private = self._is_private(site)
        pool = self._pools.get(private)
        if pool is None:
            if self._trusted is None:
                self._trusted = tls_context()
            pool = self._pools[private] = httpcore.AsyncConnectionPool(
                ssl_context=self._trusted,
                # As many as the gate lets in. None is used again: what a site sends beyond an
                # answer would be its answer to the next request, of another wallet.
                max_connections=None,
                max_keepalive_connections=0,
                network_backend=CheckedConnections(
                    self._resolve or SystemResolver(), self._dial, private=private
                ),
            )
        return pool


def _headers(
    request: SellerRequest, more: tuple[tuple[str, str], ...]
) -> list[tuple[bytes, bytes]]:
    found = with_headers(_DEFAULTS, with_headers(request.headers, more))
    made = [(b"Host", host_header(request.site)), (b"Accept-Encoding", b"identity")]
    made += [(name.encode(), value.encode()) for name, value in found]
    if request.body or request.method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
        made.append((b"Content-Length", str(len(request.body)).encode()))
    return made


def _refusal(error: SkillError, site: Site) -> PaymentRefused:
    name = site_name(site)
    if error.code == "address_refused":
        return PaymentRefused(
            error.code,
            f"{name} has no public address: private networks and this machine are only for sites"
            " that PAYMENTS_PRIVATE_SITES names",
        )
    if error.code == "too_large":
        return PaymentRefused("answer_too_large", f"{name} answered more than is read of an answer")
    return PaymentRefused("no_answer", f"{name}: {error}")
