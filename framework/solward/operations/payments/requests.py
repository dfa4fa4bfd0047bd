"""Requests that may be paid for: their checks, fingerprints, and the HTTP client for them.

Only https is allowed, except for loopback addresses that the operator named. As for plugin hosts
(`hosts/egress`), a host name is resolved here, and the connection goes to the checked address. The
client follows no redirects, decodes nothing, has no cookies and does not read the environment.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.metadata import version
from typing import Final
from weakref import WeakValueDictionary

import httpcore
import httpx

from solward.hosts.egress.connections import (
    AnswerReading,
    CheckedConnections,
    Dial,
    Limits,
    ReadPace,
    Resolve,
    SystemResolver,
    current_reading,
)
from solward.hosts.egress.messages import host_header, site_errors
from solward.plugins.payment_checks import is_plain
from solward.settings.addresses import is_loopback
from solward.support import jsontext
from solward.support.clean_text import cleaned
from solward.support.streams import dial_tcp
from solward.support.tls import tls_context
from solward.types.errors import InvalidRequest, PaymentRefused, SkillError
from solward.types.manifest import MAX_URL, Site, site_name, split_url
from solward.types.payment import MAX_BODY_BYTES, METHODS, HttpAnswer, PayRequest, max_parts
from solward.types.roles import ADMIN, is_key
from solward.types.site import read_site

MAX_HEADERS: Final = 64
MAX_HEADER_BYTES: Final = 16 << 10
_NO_BODY: Final = frozenset({"GET", "HEAD"})

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Only visible ASCII and spaces, which every server reads in the same way.
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]{0,8190}[\x21-\x7e])?|")
# Headers about the connection and the message's length, which only the service may set.
_FRAME: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
# Headers in which protocols send a payment, which only the service may set.
_PAYMENT: Final = frozenset({"payment-signature", "x-payment"})
_PAYMENT_SCHEME: Final = re.compile(r"payment(?:[\s,]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MaxPrice:
    """The maximum to pay: `amount` whole units of `asset`, the given symbol or mint."""

    amount: Decimal
    asset: str


@dataclass(frozen=True, slots=True)
class SellerRequest:
    """A checked request to a seller.

    Attributes:
        url: without a fragment.
        path: path and query, as sent.
        fingerprint: SHA-256 of method, URL, headers and body, in hex.
    """

    url: str
    site: Site
    path: str
    method: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)
    max_price: MaxPrice | None
    protocol: str | None
    fingerprint: str

    @property
    def shown_url(self) -> str:
        """The URL without its query, which may have secrets. It is normalized (RFC 3986, 6.2.2), so
        that a higher price for another spelling of the URL is noticed."""
        return _ESCAPED.sub(_normalized_escape, self.url.partition("?")[0])


def address_of(text: str, field: str) -> tuple[str, Site, str]:
    """Return a URL without its fragment, the URL's site, and its path with query.

    Raises:
        InvalidRequest: the URL is wrong; names `field`.
    """
    expected = f"{field} must be an https:// address without user, of at most {MAX_URL} characters"
    if not 0 < len(text) <= MAX_URL or not text.isprintable() or text != text.strip():
        raise InvalidRequest(expected)
    try:
        url = httpx.URL(text)
        if url.userinfo or url.scheme not in ("http", "https"):
            raise InvalidRequest(expected)
        made = str(url.copy_with(fragment=None))
        site, path = split_url(made)
    except (httpx.InvalidURL, SkillError, ValueError):
        raise InvalidRequest(expected) from None
    # A site with another spelling would match no grant.
    read_site(site_name(site), field)
    return made, site, path


def read_request(request: PayRequest, *, needs_most: bool) -> SellerRequest:
    """Check a caller's request.

    Args:
        needs_most: whether `max` is required.

    Raises:
        InvalidRequest: a field is wrong; names it.
    """
    max_price = None
    if needs_most or request.max is not None:
        max_price = MaxPrice(*max_parts(request.max))
    url, site, path = address_of(request.url, "url")
    method = request.method.upper()
    if method not in METHODS:
        raise InvalidRequest(f"method must be one of {', '.join(METHODS)}")
    headers = read_headers(request.headers)
    body = request.body
    if len(body) > MAX_BODY_BYTES:
        raise InvalidRequest(f"body must not be larger than {MAX_BODY_BYTES >> 20} MiB")
    if body and method in _NO_BODY:
        raise InvalidRequest(f"body must be absent: a {method} request has no body; use POST")
    named = sorted([name.lower(), value] for name, value in headers)
    whole = jsontext.dumps([method, url, named, hashlib.sha256(body).hexdigest()], canonical=True)
    return SellerRequest(
        url=url,
        site=site,
        path=path,
        method=method,
        headers=headers,
        body=body,
        max_price=max_price,
        protocol=request.protocol,
        fingerprint=hashlib.sha256(whole.encode()).hexdigest(),
    )


def _normalized_escape(escape: re.Match[str]) -> str:
    """Return the character of an escape if it needs no escape, otherwise the escape in capitals."""
    character = chr(int(escape[0][1:], 16))
    return character if _UNRESERVED.fullmatch(character) else escape[0].upper()


def read_headers(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return a caller's headers; raises `InvalidRequest`, naming a header that is not allowed."""
    if len(given) > MAX_HEADERS or sum(map(len, (*given, *given.values()))) > MAX_HEADER_BYTES:
        raise InvalidRequest(
            f"headers must be at most {MAX_HEADERS}, and {MAX_HEADER_BYTES >> 10} KiB together"
        )
    seen: set[str] = set()
    for name, value in given.items():
        shown = name[:64] if name.isprintable() else "a name"
        if not _TOKEN.fullmatch(name):
            raise InvalidRequest(f"headers: {shown!r} is not a header name")
        lower = name.lower()
        if lower in seen:
            raise InvalidRequest(f"headers: {shown} stands twice")
        seen.add(lower)
        if lower in _FRAME:
            raise InvalidRequest(f"headers: {shown} is set by the service")
        shows = lower == "authorization" and _PAYMENT_SCHEME.match(value)
        if lower in _PAYMENT or shows:
            raise InvalidRequest(f"headers: {shown} sends a payment, which only the service may do")
        if not _VALUE.fullmatch(value):
            raise InvalidRequest(f"headers: the value of {shown} must be printable ASCII, one line")
    return tuple(given.items())


def shown_headers(made: Mapping[str, str], protocol: str) -> tuple[tuple[str, str], ...]:
    """Return a protocol's headers that send a payment; raises `PaymentRefused` if invalid."""
    found = tuple(made.items())
    fits = 0 < len(found) <= 8 and sum(len(n) + len(v) for n, v in found) <= 2 * MAX_HEADER_BYTES
    for name, value in found:
        fits = fits and bool(_TOKEN.fullmatch(name)) and name.lower() not in _FRAME
        fits = fits and is_plain(value)
    if not fits:
        raise PaymentRefused("protocol_failed", f"{protocol} made headers that cannot be sent")
    return found


def merged_headers(
    given: tuple[tuple[str, str], ...], more: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Return `given` with the headers of `more`, which replace headers of the same name."""
    names = {name.lower() for name, _ in more}
    return (*(each for each in given if each[0].lower() not in names), *more)


MAX_ANSWER_BYTES: Final = 1 << 20
"""The maximum bytes of an answer's body that are read and stored."""
_OF_ONE: Final = 4
_LIMITS: Final = Limits(response_bytes=2 * MAX_ANSWER_BYTES, connect_s=10.0, at_once=32)
# Headers to send unless the caller gives a header of the same name.
_DEFAULTS: Final = (("Accept", "*/*"), ("User-Agent", f"solward/{version('solward')}"))
# Headers about the connection, and cookies; the service drops them.
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
    """A site's answer.

    Attributes:
        truncated: whether the body is longer than what was read, or ended early.
        broken: whether the body ended early or took too long.
    """

    answer: HttpAnswer
    truncated: bool = False
    broken: bool = False


class Sites:
    """The HTTP client for requests to sellers' sites."""

    def __init__(
        self,
        private: Sequence[str] = (),
        *,
        resolve: Resolve | None = None,
        dial: Dial | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        """Create the client; tests replace `resolve`, `dial` and `trusted`.

        Args:
            private: sites (as in grants) that may be on this machine or a private network.
            trusted: trusted certificates; by default those of httpx, or of SSL_CERT_FILE.
        """
        self._private = frozenset(private)
        self._resolve = resolve
        self._dial = dial or dial_tcp
        self._trusted = trusted
        self._pools: dict[bool, httpcore.AsyncConnectionPool] = {}
        # Slow sellers and many requests by API keys must not block the operator and agents, and one
        # principal must not block the others.
        self._gates = {is_keys: asyncio.Semaphore(_LIMITS.at_once) for is_keys in (True, False)}
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._pace = ReadPace(_LIMITS.chunks_a_second)

    def check(self, site: Site) -> None:
        """Refuse a site that may not be requested.

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
        """Send one request; a principal may have at most `_OF_ONE` unfinished requests.

        Args:
            headers: headers that replace the caller's headers of the same name.
            who: the requesting principal.

        Raises:
            PaymentRefused: `https_only`, `address_refused`, `answer_too_large`, or `no_answer`, in
                which case the request may have arrived.
        """
        site = request.site
        self.check(site)
        reading = AnswerReading(site, _LIMITS, self._pace)
        until = asyncio.get_running_loop().time() + within_s
        own = self._own.setdefault(who, asyncio.Semaphore(_OF_ONE))
        try:
            async with AsyncExitStack() as stack:
                async with site_errors(until):
                    await stack.enter_async_context(own)
                    await stack.enter_async_context(self._gates[is_key(who)])
                stack.callback(reading.hang_up)
                return await self._read_answer(request, headers, reading, until)
        except SkillError as error:
            raise _refusal_for(error, site) from None

    async def close(self) -> None:
        """Close every connection."""
        while self._pools:
            _, pool = self._pools.popitem()
            await pool.aclose()

    async def _read_answer(
        self,
        request: SellerRequest,
        headers: tuple[tuple[str, str], ...],
        reading: AnswerReading,
        until: float,
    ) -> SiteAnswer:
        site = request.site
        async with site_errors(until):
            current_reading.set(reading)
            response = await self._pool_for(site).handle_async_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(
                        scheme=site.scheme,
                        host=site.host.strip("[]"),
                        port=site.port,
                        target=request.path,
                    ),
                    headers=_request_headers(request, headers),
                    content=request.body,
                    extensions={"timeout": {"connect": _LIMITS.connect_s}},
                )
            )
        reading.has_head = True
        try:
            if not 200 <= response.status <= 599:
                raise SkillError("http_remote_protocol_error", "Its answer is not HTTP")
            body, is_whole, is_broken = await self._read_body(response, reading, until)
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

    async def _read_body(
        self, response: httpcore.Response, reading: AnswerReading, until: float
    ) -> tuple[bytes, bool, bool]:
        """Return at most `MAX_ANSWER_BYTES`, whether that is all, and whether the body broke
        off."""
        body = bytearray()
        assert isinstance(response.stream, AsyncIterable)
        chunks = aiter(response.stream)
        try:
            while len(body) < MAX_ANSWER_BYTES:
                async with site_errors(until):
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

    def _pool_for(self, site: Site) -> httpcore.AsyncConnectionPool:
        private = self._is_private(site)
        pool = self._pools.get(private)
        if pool is None:
            if self._trusted is None:
                self._trusted = tls_context()
            pool = self._pools[private] = httpcore.AsyncConnectionPool(
                ssl_context=self._trusted,
                # The gate bounds them. No connection is used again, because bytes that a site sends
                # after its answer would be read as the answer to another wallet's next request.
                max_connections=None,
                max_keepalive_connections=0,
                network_backend=CheckedConnections(
                    self._resolve or SystemResolver(), self._dial, private=private
                ),
            )
        return pool


def _request_headers(
    request: SellerRequest, more: tuple[tuple[str, str], ...]
) -> list[tuple[bytes, bytes]]:
    found = merged_headers(_DEFAULTS, merged_headers(request.headers, more))
    made = [(b"Host", host_header(request.site)), (b"Accept-Encoding", b"identity")]
    made += [(name.encode(), value.encode()) for name, value in found]
    if request.body or request.method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
        made.append((b"Content-Length", str(len(request.body)).encode()))
    return made


def _refusal_for(error: SkillError, site: Site) -> PaymentRefused:
    name = site_name(site)
    if error.code == "address_refused":
        return PaymentRefused(
            error.code,
            f"{name} has no public address: private networks and this machine are only for sites"
            " that PAYMENTS_PRIVATE_SITES names",
        )
    if error.code == "too_large":
        return PaymentRefused("answer_too_large", f"{name} sent a larger answer than is read")
    return PaymentRefused("no_answer", f"{name}: {error}")
