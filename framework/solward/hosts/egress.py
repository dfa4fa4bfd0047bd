"""Egress: the service makes the HTTP requests of plugin hosts, which have no sockets.

A request goes to a site that the plugin's manifest names, by https, or to an address that the
operator configured. A name is resolved here, for each connection, and the connection is made to an
address that was checked: what a name means to somebody else, or a moment later, does not matter.
Bodies pass in pieces, as they were sent: nothing is decoded, followed, remembered or read from the
environment.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import ipaddress
import re
import secrets
import socket
import ssl
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpcore
import httpx
import structlog

from solward import jsontext
from solward.errors import SkillError
from solward.hosts.wire.channel import Handler, Incoming
from solward.hosts.wire.frames import PIECE, HostileFrame
from solward.hosts.wire.http_failures import BY_NAME
from solward.hosts.wire.methods import HttpBody, HttpHead, HttpPiece, HttpRequest
from solward.manifest import Manifest, Site, Target, secret_sites, site_of
from solward.telemetry import metrics
from solward.telemetry.scrub import conceal

_log = structlog.get_logger(__name__)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""A name and a port -> the addresses of the name. Raises OSError."""
Dial = Callable[[str, int, float | None], Awaitable[httpcore.AsyncNetworkStream]]
"""Connect to a checked address and port within seconds. Raises httpcore's exceptions."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of requests.

    Attributes:
        request_bytes, response_bytes: of a body as it is sent, so compressed where it is.
        header_bytes: of all headers of one message together.
        requests: of one running call, refused ones too.
        refused: requests of one running call at which its host is ended.
        at_once: of one tenant; more wait.
        total_s: of one request, its answer included.
        connect_s: until there is a connection.
        head_bytes: as they come until an answer's head is there, so of all heads before it (1xx).
        chunks_a_second: of all answers of one tenant that are read at full speed; more wait.
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


LIMITS: Final = Limits()


@dataclass(slots=True)
class EgressCall:
    """What one running call may send; it belongs to the call's capability.

    Attributes:
        tenant: whose host makes the requests; connections are never shared with another tenant.
        plugin: for metrics and logs.
        manifest: the plugin's.
        configured: addresses that the operator configured for the plugin.
        values: the secrets that the manifest names and that are set, by their variable.
        client: makes the requests to configured addresses, with headers of the operator's own;
            None for a client like any other.
        deadline: the loop's time at which the call ends.
    """

    tenant: str
    plugin: str
    manifest: Manifest | None
    configured: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: httpx.AsyncClient | None = None
    deadline: float | None = None
    requests: int = 0
    ended: bool = False
    logged: bool = False
    _placed: dict[str, _Placed] = field(default_factory=dict, repr=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    def placeholder(self, env: str) -> str | None:
        """What stands for a secret in the host; None where it is not set or not declared.

        Where an address is configured for a provider, its key goes there.
        """
        value = self.values.get(env)
        sites = secret_sites(self.manifest, env, self.configured)
        if not value or not sites:
            return None
        found = self._placed.get(env)
        if found is None:
            assert self.manifest is not None
            in_query = any(each.env == env and each.in_query for each in self.manifest.secrets)
            conceal([value])
            made = f"solward-secret-{secrets.token_hex(16)}"
            found = self._placed[env] = _Placed(env, made, value, sites, in_query)
        return found.placeholder

    def end(self) -> None:
        """The call has ended: no request begins any more, and those that run are cancelled."""
        self.ended = True
        for task in self._tasks:
            task.cancel()

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """One request by the running task, which is the request's own.

        Raises:
            SkillError: `call_ended` or `too_many_requests`.
        """
        if self.ended:
            raise SkillError("call_ended", "The call that this request is for has ended")
        self.requests += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def secrets_for(self, site: Site) -> tuple[_Placed, ...]:
        """The secrets of which this site gets the values."""
        return tuple(each for each in self._placed.values() if site in each.sites)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A secret of a call, and what stands for it in the host."""

    env: str
    placeholder: str
    value: str = field(repr=False)
    sites: tuple[Site, ...]
    in_query: bool


class Egress:
    """All outgoing requests of plugin hosts of one service.

    Args:
        resolve: instead of the machine's own resolver.
        dial: instead of a TCP connection.
        trusted: certificates; those of httpx, or of SSL_CERT_FILE, where it is not given.
    """

    def __init__(
        self,
        limits: Limits = LIMITS,
        *,
        resolve: Resolve | None = None,
        dial: Dial | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits
        self._resolve = resolve
        self._dial = dial or _dial
        self._trusted = trusted
        self._pools: dict[tuple[str, bool], httpcore.AsyncConnectionPool] = {}
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._paces: dict[str, _Pace] = {}

    def handler(self, call_of: Callable[[Incoming], EgressCall]) -> Handler:
        """The handler of `http.request`.

        Args:
            call_of: the running call that a capability names; raises where it names none.
        """

        async def serve(incoming: Incoming) -> AsyncGenerator[HttpPiece, None]:
            request: HttpRequest = incoming.request
            call = call_of(incoming)
            if call.requests >= self._limits.refused:
                incoming.channel.end(HostileFrame("requests of a call that go on being refused"))
            made = self.request(call, request, incoming.uploads())
            async with aclosing(made) as pieces:
                async for piece in pieces:
                    yield piece

        return serve

    async def request(
        self, call: EgressCall, request: HttpRequest, body: AsyncIterator[HttpBody]
    ) -> AsyncGenerator[HttpPiece, None]:
        """Make one request: its head, then the body of its answer in pieces.

        Raises:
            SkillError: `no_network`, `https_only`, `site_not_declared`, `bad_http_request`,
                `address_refused`, `too_large`, `too_many_requests`, `call_ended`,
                `secret_unusable`, `encoded_answer`, or a code of `http_failures`.
        """
        outcome, site = "cancelled", ""
        try:
            with call.requesting():
                if call.requests > self._limits.requests:
                    raise SkillError(
                        "too_many_requests",
                        f"A call may make {self._limits.requests} requests, and has made them",
                    )
                target = site_of(call.manifest, request.url, call.configured)
                site = str(target.site)
                client = call.client if target.configured else None
                placed = call.secrets_for(target.site)
                outgoing = _outgoing(request, target, placed, client, self._limits)
                async with aclosing(self._in_turn(call, target, outgoing, body)) as pieces:
                    async for piece in pieces:
                        yield piece
            outcome = "answered"
        except SkillError as error:
            outcome = "failed" if error.code.startswith("http_") else "refused"
            if not call.logged:
                # The first alone: a plugin decides how often it is refused.
                call.logged = True
                _log.info(
                    f"plugin_request_{outcome}", plugin=call.plugin, site=site, problem=error.code
                )
            raise
        finally:
            metrics.PLUGIN_REQUESTS.labels(call.plugin, outcome).inc()

    async def close_tenant(self, tenant: str) -> None:
        """Close the connections of a tenant that is gone."""
        self._gates.pop(tenant, None)
        self._paces.pop(tenant, None)
        for configured in (False, True):
            pool = self._pools.pop((tenant, configured), None)
            if pool is not None:
                await pool.aclose()

    async def close(self) -> None:
        """Close every connection."""
        for tenant in {tenant for tenant, _ in self._pools}:
            await self.close_tenant(tenant)

    def _pool(self, tenant: str, configured: bool) -> httpcore.AsyncConnectionPool:
        pool = self._pools.get((tenant, configured))
        if pool is None:
            if self._trusted is None:
                self._trusted = httpx.create_ssl_context()
            pool = self._pools[tenant, configured] = httpcore.AsyncConnectionPool(
                ssl_context=self._trusted,
                # As many as the tenant's gate lets in.
                max_connections=None,
                max_keepalive_connections=self._limits.at_once,
                keepalive_expiry=30.0,
                network_backend=_Pinned(
                    self._resolve or _SystemResolver(), self._dial, private=configured
                ),
            )
        return pool

    async def _in_turn(
        self, call: EgressCall, target: Target, outgoing: _Outgoing, body: AsyncIterator[HttpBody]
    ) -> AsyncGenerator[HttpPiece, None]:
        until = asyncio.get_running_loop().time() + self._limits.total_s
        until = until if call.deadline is None else min(until, call.deadline)
        gate = self._gates.setdefault(call.tenant, asyncio.Semaphore(self._limits.at_once))
        async with _waiting(until):
            await gate.acquire()
        pace = self._paces.setdefault(call.tenant, _Pace(self._limits.chunks_a_second))
        reading = _Reading(target.site, self._limits, pace)
        try:
            async with _waiting(until):
                _reading.set(reading)
                answer = await self._send(call, target, outgoing, body)
            reading.has_head = True
            try:
                made = self._pieces(answer, outgoing, until, reading)
                async with aclosing(made) as pieces:
                    async for piece in pieces:
                        yield piece
            finally:
                await answer.close()
        finally:
            gate.release()

    async def _send(
        self, call: EgressCall, target: Target, outgoing: _Outgoing, body: AsyncIterator[HttpBody]
    ) -> _Answer:
        bounded = _bounded(body, outgoing.length, self._limits.request_bytes)
        if target.configured and call.client is not None:
            made = call.client.build_request(
                outgoing.method,
                f"{target.site.scheme}://{_host(target.site).decode()}{outgoing.path.decode()}",
                headers=list(outgoing.headers),
                content=bounded,
                extensions={"timeout": outgoing.timeouts},
            )
            # Cookies of other calls, which the client keeps.
            if not any(name.lower() == b"cookie" for name, _ in outgoing.headers):
                made.headers.pop("Cookie", None)
            found = await call.client.send(made, stream=True, follow_redirects=False)
            raw = found.aiter_raw()
            return _Answer(
                found.status_code, found.headers.raw, found.extensions, raw, found.aclose
            )
        site = target.site
        response = await self._pool(call.tenant, target.configured).handle_async_request(
            httpcore.Request(
                outgoing.method,
                httpcore.URL(
                    scheme=site.scheme,
                    host=site.host.strip("[]"),
                    port=site.port,
                    target=outgoing.path,
                ),
                headers=list(outgoing.headers),
                content=bounded,
                extensions={"timeout": outgoing.timeouts},
            )
        )
        assert isinstance(response.stream, AsyncIterable)
        chunks = aiter(response.stream)
        return _Answer(
            response.status, response.headers, response.extensions, chunks, response.aclose
        )

    async def _pieces(
        self, answer: _Answer, outgoing: _Outgoing, until: float, reading: _Reading
    ) -> AsyncGenerator[HttpPiece, None]:
        site = reading.site
        yield HttpPiece(head=_head(answer, site, outgoing.patterns, self._limits))
        received, screen = 0, _Screen(outgoing.patterns)
        while True:
            async with _waiting(until):
                # Each step of this generator may be another task's.
                _reading.set(reading)
                chunk = await anext(answer.chunks, None)
                await reading.pace.spend(1)
            received += len(chunk or b"")
            if received > self._limits.response_bytes:
                raise _answer_too_large(site, self._limits)
            data = screen.end() if chunk is None else screen.take(chunk)
            for start in range(0, len(data), PIECE):
                yield HttpPiece(data=data[start : start + PIECE])
            if chunk is None:
                return


def _answer_too_large(site: Site, limits: Limits) -> SkillError:
    return SkillError(
        "too_large", f"The answer of {site} is more than {limits.response_bytes} bytes"
    )


class _Pace:
    """How fast one tenant's answers are read: each chunk costs the service's loop some time,
    however small it is.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._paid_until = 0.0

    async def spend(self, chunks: int) -> None:
        """Count chunks; wait where they came faster than the rate for more than a second."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now - 1.0) + chunks / self._rate
        if self._paid_until > now:
            await asyncio.sleep(self._paid_until - now)


@dataclass(slots=True)
class _Reading:
    """The answer that is being read, as its bytes come from the connection."""

    site: Site
    limits: Limits
    pace: _Pace
    received: int = 0
    last: int = 0
    has_head: bool = False

    async def before(self, max_bytes: int) -> int:
        """Wait until more may be read; how much that is.

        Raises:
            SkillError: `too_large`.
        """
        limits = self.limits
        # Chunks' own lengths and extensions are bytes too.
        if self.received > limits.response_bytes * 5 // 4 + limits.head_bytes:
            raise _answer_too_large(self.site, limits)
        if self.has_head:
            return max_bytes
        if self.received >= limits.head_bytes:
            raise SkillError(
                "too_large",
                f"{self.site} sent more than {limits.head_bytes} bytes before its answer began",
            )
        if self.received:
            # Most heads are in the first read. What comes after may be many that announce another,
            # and the parser stops at none of them.
            await self.pace.spend(1 + self.last // _SMALLEST_HEAD)
            await asyncio.sleep(0)
        return min(max_bytes, _HEAD_READ)


_HEAD_READ: Final = 4096
_SMALLEST_HEAD: Final = 32
_reading: Final[ContextVar[_Reading | None]] = ContextVar("egress_reading", default=None)


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer whose head has come."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    extensions: Mapping[str, Any]
    chunks: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


@asynccontextmanager
async def _waiting(until: float) -> AsyncIterator[None]:
    """Wait for a site until this time of the loop; what fails is said in words of ours.

    The libraries' own texts may quote headers, and so secrets.
    """
    try:
        async with asyncio.timeout_at(until):
            yield
    except TimeoutError:
        raise SkillError("http_read_timeout", "There was no whole answer in time") from None
    except Exception as error:
        for name, code in BY_NAME.items():
            if isinstance(error, getattr(httpcore, name) | getattr(httpx, name)):
                raise SkillError(code, _words(name, error)) from None
        raise


def _words(name: str, error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "The site's certificate is not valid for it"
    if isinstance(cause, ssl.SSLError):
        return "There was no TLS connection"
    return _WORDS[name]


_WORDS: Final = {
    "ConnectTimeout": "The site could not be reached in time",
    "ReadTimeout": "The site did not answer in time",
    "WriteTimeout": "The site did not take the request in time",
    "PoolTimeout": "There was no connection in time",
    "ConnectError": "The site could not be reached",
    "ReadError": "The connection ended before the answer did",
    "WriteError": "The connection ended before the request was sent",
    "LocalProtocolError": "The request is not what HTTP allows",
    "RemoteProtocolError": "What the site answered is not HTTP",
}


# Requests.

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]{0,16384}")
_LENGTH: Final = re.compile(rb"[0-9]{1,10}")
# Of the connection, which is the service's.
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"expect",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# What could have a secret come back encoded or in parts, which would not be recognized.
_DISGUISES: Final = frozenset({b"accept-encoding", b"if-range", b"range"})


# What every httpx client sends; its other headers are the operator's.
_CLIENTS: Final = frozenset({b"accept", b"accept-encoding", b"connection", b"host", b"user-agent"})


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A checked request, its secrets in their places.

    Attributes:
        length: of its body, None where it is sent in chunks.
        patterns: secrets of its site, as its answer could quote them -> what stands there instead.
            They are those of the site, sent with this request or not.
    """

    method: str
    path: bytes
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    timeouts: Mapping[str, float]
    length: int | None
    patterns: Mapping[bytes, bytes] = field(repr=False)


def _outgoing(
    request: HttpRequest,
    target: Target,
    placed: tuple[_Placed, ...],
    client: httpx.AsyncClient | None,
    limits: Limits,
) -> _Outgoing:
    if request.method not in _METHODS:
        raise _bad(f"The method must be one of {', '.join(sorted(_METHODS))}")
    own = {
        name.lower(): value
        for name, value in (client.headers.raw if client is not None else ())
        if name.lower() not in _CLIENTS
    }
    patterns = {text: each.placeholder.encode() for each in placed for text in _forms(each.value)}
    patterns |= {text: b"*" for value in own.values() for text in _forms(value.decode("latin-1"))}
    headers = [(b"Host", _host(target.site))]
    size, lengths, chunked = 0, [], False
    for name, value in request.headers:
        size += len(name) + len(value)
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _bad("A header has characters that HTTP does not allow, or is too long")
        lower = name.lower()
        if lower == b"content-length":
            lengths.append(value)
        elif lower == b"transfer-encoding":
            chunked = True
        elif lower not in _HOP_BY_HOP and lower not in own:
            if patterns and lower in _DISGUISES:
                continue
            filled = _filled(lower, value, placed)
            if filled != value and lower == b"authorization":
                patterns[filled.partition(b" ")[2]] = b"*"
            headers.append((name, filled))
    if size > limits.header_bytes:
        raise SkillError(
            "too_large", f"The headers are more than {limits.header_bytes} bytes together"
        )
    if patterns:
        headers.append((b"Accept-Encoding", b"identity"))
    length: int | None = 0
    if lengths:
        length = _length(lengths, limits)
        headers.append((b"Content-Length", str(length).encode()))
    elif chunked:
        length = None
        headers.append((b"Transfer-Encoding", b"chunked"))
    timeouts = {
        "connect": _least(request.connect_s, limits.connect_s),
        "read": _least(request.read_s, limits.total_s),
        "write": _least(request.write_s, limits.total_s),
    }
    path = _filled_query(target.path, placed).encode()
    # One that is short could be an ordinary word.
    patterns = {text: instead for text, instead in patterns.items() if len(text) >= _MIN_PATTERN}
    return _Outgoing(request.method, path, tuple(headers), timeouts, length, patterns)


_MIN_PATTERN: Final = 8


def _bad(text: str) -> SkillError:
    return SkillError("bad_http_request", text)


def _host(site: Site) -> bytes:
    default = 443 if site.scheme == "https" else 80
    return (site.host if site.port == default else f"{site.host}:{site.port}").encode()


def _least(asked: float | None, limit: float) -> float:
    # Neither NaN nor a negative number is less than the limit and more than 0.
    return asked if asked is not None and 0 < asked < limit else limit


def _length(lengths: list[bytes], limits: Limits) -> int:
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise _bad("Content-Length must be one number")
    if int(lengths[0]) > limits.request_bytes:
        raise _request_too_large(limits.request_bytes)
    return int(lengths[0])


def _request_too_large(most: int) -> SkillError:
    return SkillError("too_large", f"The request's body is more than {most} bytes")


async def _bounded(
    body: AsyncIterator[HttpBody], length: int | None, most: int
) -> AsyncIterator[bytes]:
    sent = 0
    async for piece in body:
        sent += len(piece.data)
        if sent > (most if length is None else length):
            break
        yield piece.data
    if length is None and sent > most:
        raise _request_too_large(most)
    if length is not None and sent != length:
        raise _bad(f"The request's body is not of {length} bytes, as its headers say")


# Secrets.


def _filled(name: bytes, value: bytes, placed: tuple[_Placed, ...]) -> bytes:
    """A header's value with the secrets of its site in their places."""
    if name == b"authorization" and value[:6].lower() == b"basic ":
        try:
            credentials = base64.b64decode(value[6:].strip(), validate=True)
        except binascii.Error:
            return value
        filled = _filled(b"", credentials, placed)
        return value if filled == credentials else b"Basic " + base64.b64encode(filled)
    for each in placed:
        if each.placeholder.encode() in value:
            secret = each.value.encode("utf-8", "replace")
            if not _VALUE.fullmatch(secret) or secret != secret.strip():
                raise SkillError(
                    "secret_unusable", f"{each.env} has characters that no header can carry"
                )
            value = value.replace(each.placeholder.encode(), secret)
    return value


def _filled_query(path: str, placed: tuple[_Placed, ...]) -> str:
    before, mark, query = path.partition("?")
    for each in placed:
        if each.in_query:
            query = query.replace(each.placeholder, quote(each.value, safe=""))
    return before + mark + query


def _forms(value: str) -> set[bytes]:
    """A secret as it is, and as an answer may quote it."""
    quoted = jsontext.dumps(value)[1:-1]
    in_url = quote(value, safe="")
    raw = value.encode("utf-8", "replace")
    return {
        raw,
        quoted.encode(),
        quoted.replace("/", "\\/").encode(),
        in_url.encode(),
        re.sub("%[0-9A-F]{2}", lambda each: each[0].lower(), in_url).encode(),
        base64.b64encode(raw).rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
    }


class _Screen:
    """Takes secrets out of an answer that comes in chunks; its length stays the same.

    Held back is only what could be the beginning of one, so that a stream is not delayed.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        # The longest first: one may be part of another.
        self._patterns = sorted(patterns, key=len, reverse=True)
        self._longest = max(map(len, self._patterns), default=0)
        self._held = b""

    def take(self, chunk: bytes) -> bytes:
        """What may go on of all that came."""
        if not self._patterns:
            return chunk
        data = self._without(self._held + chunk)
        kept = next(
            (
                size
                for size in range(min(len(data), self._longest - 1), 0, -1)
                if any(each.startswith(data[-size:]) for each in self._patterns)
            ),
            0,
        )
        self._held = data[len(data) - kept :]
        return data[: len(data) - kept]

    def end(self) -> bytes:
        """The rest."""
        held, self._held = self._held, b""
        return held

    def _without(self, data: bytes) -> bytes:
        for each in self._patterns:
            if each in data:
                data = data.replace(each, b"*" * len(each))
        return data


# Answers.


def _head(answer: _Answer, site: Site, patterns: Mapping[bytes, bytes], limits: Limits) -> HttpHead:
    """The head of an answer, within the bounds of what a host takes.

    Raises:
        SkillError: `too_large`, `encoded_answer` or `http_remote_protocol_error`.
    """
    longest_first = sorted(patterns, key=len, reverse=True)

    def screened(value: bytes) -> bytes:
        for pattern in longest_first:
            value = value.replace(pattern, patterns[pattern])
        return value

    headers: list[tuple[bytes, bytes]] = []
    size = 0
    for name, value in answer.headers:
        lower = name.lower()
        if lower in _HOP_BY_HOP:
            continue
        if patterns and lower == b"content-encoding" and value.lower() != b"identity":
            raise SkillError(
                "encoded_answer",
                f"{site} answered in an encoding that was not asked for, in which its secret"
                " could not be recognized",
            )
        headers.append((screened(name), screened(value)))
        longest = max(len(headers[-1][0]) * 64, len(headers[-1][1]))
        size += sum(map(len, headers[-1]))
        if size > limits.header_bytes or longest > 16 << 10 or len(headers) > 128:
            raise SkillError(
                "too_large", f"{site} answered with more headers than a plugin host takes"
            )
    if not 200 <= answer.status <= 599:
        raise SkillError("http_remote_protocol_error", "What the site answered is not HTTP")
    return HttpHead(
        answer.status,
        tuple(headers),
        screened(answer.extensions.get("reason_phrase", b""))[:256],
        answer.extensions.get("http_version", b"HTTP/1.1")[:16],
    )


# Addresses.

# All that IANA lists as of special purpose, and the addresses at which clouds tell a machine about
# itself where these are public.
_REFUSED: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
            "2001::/23",
            "2001:db8::/32",
            "2002::/16",
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)
# The only part of IPv6 that is given to networks; loopback, private and link-local addresses,
# multicast, and IPv4 addresses in those of IPv6 are outside it.
_UNICAST: Final = ipaddress.ip_network("2000::/3")
_PRIVATE: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "::1/128",
            "fc00::/7",
        ),
    )
)
# A name with many addresses is tried so often.
_TRIES: Final = 4


def public(address: Address) -> bool:
    """Whether an address is that of a machine on the Internet."""
    if address.version == 6 and (address not in _UNICAST or address.scope_id is not None):
        return False
    return not any(address in each for each in _REFUSED if each.version == address.version)


class _Pinned(httpcore.AsyncNetworkBackend):
    """Resolves, checks and connects in one step, so that no second look-up can differ.

    TLS is httpcore's: for the site's name, whatever address it has.
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
        allowed = [each for each in found if self._allowed(host, each)]
        if not allowed:
            raise SkillError(
                "address_refused",
                f"{host} has no address that plugins may call: private networks and this machine"
                " are only for addresses that the operator configured",
            )
        failure: Exception = httpcore.ConnectError()
        for address in allowed[:_TRIES]:
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
            return _Counted(stream)
        raise failure

    def _allowed(self, host: str, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        if not self._private:
            return public(address)
        # The operator named the address itself, or a name of a network of their own.
        return (
            text == host
            or public(address)
            or any(address in each for each in _PRIVATE if each.version == address.version)
        )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Counted(httpcore.AsyncNetworkStream):
    """A connection that gives the parser of answers no more than their bounds."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        reading = _reading.get()
        if reading is None:
            return await self._stream.read(max_bytes, timeout)
        data = await self._stream.read(await reading.before(max_bytes), timeout)
        reading.last = len(data)
        reading.received += reading.last
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Counted(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _is_this_machine(stream: httpcore.AsyncNetworkStream) -> bool:
    """A connection to an own address, however public, comes from that very address."""
    here, there = stream.get_extra_info("client_addr"), stream.get_extra_info("server_addr")
    return bool(here and there and here[0] == there[0])


class _SystemResolver:
    """The machine's resolver, with threads of a tenant's own.

    A look-up goes on for as long as the name's servers like, though nobody waits for it any more.
    In the loop's own threads it would hold up the service.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOK_UPS, "egress-resolver")

    async def __call__(self, host: str, port: int) -> list[str]:
        look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


_LOOK_UPS: Final = 2


async def _dial(
    address: str,
    port: int,
    timeout: float | None,
) -> httpcore.AsyncNetworkStream:
    return await httpcore.AnyIOBackend().connect_tcp(address, port, timeout)
