"""HTTP requests that the service makes for plugin hosts, which have no sockets.

A request goes by https to a site that the plugin's manifest names, or to an address that the
operator configured. The name is resolved here for each connection, the address is checked, and the
connection is made to that address: a later answer of DNS changes nothing. Bodies pass unchanged in
pieces; nothing is decoded, no redirect is followed, no cookie is kept, no environment is read.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpcore
import httpx
import structlog

from solward.hosts.egress.connections import (
    LIMITS,
    AnswerReading,
    CheckedConnections,
    Dial,
    Limits,
    ReadPace,
    Resolve,
    SystemResolver,
    answer_too_large,
    current_reading,
)
from solward.hosts.egress.messages import (
    Answer,
    AnswerScreen,
    OutgoingRequest,
    PlacedSecret,
    answer_head,
    bounded_body,
    host_header,
    outgoing_request,
    site_errors,
)
from solward.hosts.wire.channel import Handler, IncomingCall
from solward.hosts.wire.frames import PIECE, HostileFrame
from solward.hosts.wire.methods import HttpHead, HttpRequest
from solward.support.streams import dial_tcp
from solward.support.tls import tls_context
from solward.telemetry import metrics
from solward.telemetry.scrub import conceal
from solward.types.errors import SkillError
from solward.types.manifest import Manifest, Site, Target, secret_sites, site_of

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class EgressCall:
    """The HTTP requests that one running call may make.

    Attributes:
        tenant: the tenant that makes them; its connections are never shared with another tenant.
        plugin: name of the plugin, for metrics and logs.
        manifest: the plugin's manifest.
        configured: addresses that the operator configured for the plugin.
        values: values of the secrets that the manifest names, by variable; only those that are set.
        key: variable of a provider's key, which goes to configured addresses instead of its sites.
        client: client for configured addresses, with the operator's headers; None for the usual.
        limits: limits instead of those of all calls.
        refused: the last refusal of a request while the call ran; None if there was none.
    """

    tenant: str
    plugin: str
    manifest: Manifest | None
    configured: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: str | None = None
    client: httpx.AsyncClient | None = None
    limits: Limits | None = None
    requests: int = 0
    ended: bool = False
    logged: bool = False
    refused: SkillError | None = field(default=None, repr=False)
    _placed: dict[str, PlacedSecret] = field(default_factory=dict, repr=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    def placeholder(self, env: str) -> str | None:
        """Return the text that a host gets for a secret; None if it is not set or not declared."""
        value = self.values.get(env)
        sites = secret_sites(self.manifest, env, self.configured if env == self.key else ())
        if not value or not sites:
            return None
        found = self._placed.get(env)
        if found is None:
            conceal([value])
            made = f"solward-secret-{secrets.token_hex(16)}"
            found = self._placed[env] = PlacedSecret(env, made, value, sites)
        return found.placeholder

    def end(self) -> None:
        """End the call: cancel its requests, and refuse new ones."""
        self.ended = True
        for task in self._tasks:
            # A second cancellation would interrupt the cleanup that the first began.
            if not task.cancelling():
                task.cancel()

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """Count a request that the running task makes inside the block, where `end` cancels it.

        Raises:
            SkillError: `call_ended` or `too_many_requests`.
        """
        if self.ended:
            raise SkillError("call_ended", "The plugin call that made this request has ended")
        self.requests += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def secrets_for(self, site: Site) -> tuple[PlacedSecret, ...]:
        """Return the secrets whose values are sent to this site."""
        return tuple(each for each in self._placed.values() if site in each.sites)


class Egress:
    """The sender of all HTTP requests of one service's plugin hosts.

    Args:
        resolve: used instead of the machine's own resolver.
        dial: used instead of a TCP connection.
        trusted: certificates; by default those of httpx, or of SSL_CERT_FILE.
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
        self._dial = dial or dial_tcp
        self._trusted = trusted
        self._pools: dict[tuple[str, bool], httpcore.AsyncConnectionPool] = {}
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._paces: dict[str, ReadPace] = {}

    def handler(self, call_of: Callable[[IncomingCall], EgressCall]) -> Handler:
        """Return the handler of `http.request`.

        Args:
            call_of: returns the running call that a capability names, or raises if it names none.
        """

        async def serve(incoming: IncomingCall) -> AsyncGenerator[HttpHead | bytes, None]:
            request: HttpRequest = incoming.request
            call = call_of(incoming)
            if call.requests >= self._limits.refused:
                incoming.channel.end(HostileFrame("requests continue after too_many_requests"))
            made = self.request(call, request, incoming.uploads())
            async with aclosing(made) as pieces:
                async for piece in pieces:
                    yield piece

        return serve

    async def request(
        self, call: EgressCall, request: HttpRequest, body: AsyncIterator[bytes]
    ) -> AsyncGenerator[HttpHead | bytes, None]:
        """Make one request; yield the head of its answer, then the body in pieces.

        Raises:
            SkillError: `no_network`, `https_only`, `site_not_declared`, `bad_http_request`,
                `address_refused`, `too_large`, `too_many_requests`, `call_ended`,
                `secret_unusable`, `encoded_answer`, or a code of `HTTP_FAILURES`.
        """
        outcome, site = "cancelled", ""
        try:
            with call.requesting():
                if call.requests > self._limits.requests:
                    raise SkillError(
                        "too_many_requests",
                        f"A call may make at most {self._limits.requests} requests; this one has",
                    )
                target = site_of(call.manifest, request.url, call.configured)
                site = str(target.site)
                client = call.client if target.configured else None
                placed = call.secrets_for(target.site)
                outgoing = outgoing_request(request, target, placed, client, self._limits)
                async with aclosing(self._request_in_turn(call, target, outgoing, body)) as pieces:
                    async for piece in pieces:
                        yield piece
            outcome = "answered"
        except SkillError as error:
            outcome = "failed" if error.code.startswith("http_") else "refused"
            if outcome == "refused" and not call.ended:
                call.refused = error
            if not call.logged:
                # Only the first: a plugin could fill the log with refusals.
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

    def _pool_for(self, tenant: str, configured: bool) -> httpcore.AsyncConnectionPool:
        pool = self._pools.get((tenant, configured))
        if pool is None:
            if self._trusted is None:
                self._trusted = tls_context()
            pool = self._pools[tenant, configured] = httpcore.AsyncConnectionPool(
                ssl_context=self._trusted,
                # The tenant's gate limits them.
                max_connections=None,
                max_keepalive_connections=self._limits.at_once,
                keepalive_expiry=30.0,
                network_backend=CheckedConnections(
                    self._resolve or SystemResolver(), self._dial, private=configured
                ),
            )
        return pool

    async def _request_in_turn(
        self,
        call: EgressCall,
        target: Target,
        outgoing: OutgoingRequest,
        body: AsyncIterator[bytes],
    ) -> AsyncGenerator[HttpHead | bytes, None]:
        limits = call.limits or self._limits
        until = asyncio.get_running_loop().time() + limits.total_s
        gate = self._gates.setdefault(call.tenant, asyncio.Semaphore(self._limits.at_once))
        async with site_errors(until):
            await gate.acquire()
        pace = self._paces.setdefault(call.tenant, ReadPace(self._limits.chunks_a_second))
        reading = AnswerReading(target.site, limits, pace)
        try:
            async with site_errors(until):
                current_reading.set(reading)
                answer = await self._send_request(call, target, outgoing, body)
            reading.has_head = True
            try:
                yield answer_head(answer, target.site, outgoing.patterns, reading.limits)
                received, screen = 0, AnswerScreen(outgoing.patterns)
                chunk: bytes | None = b""
                while chunk is not None:
                    async with site_errors(until):
                        # Each step of this generator may run in another task.
                        current_reading.set(reading)
                        chunk = await anext(answer.chunks, None)
                        await reading.pace.spend(1)
                    received += len(chunk or b"")
                    if received > reading.limits.response_bytes:
                        raise answer_too_large(target.site, reading.limits)
                    data = screen.end() if chunk is None else screen.screen(chunk)
                    for start in range(0, len(data), PIECE):
                        yield data[start : start + PIECE]
                reading.is_whole = True
            finally:
                await answer.close()
        finally:
            reading.hang_up()
            gate.release()

    async def _send_request(
        self,
        call: EgressCall,
        target: Target,
        outgoing: OutgoingRequest,
        body: AsyncIterator[bytes],
    ) -> Answer:
        bounded = bounded_body(body, outgoing.length, self._limits.request_bytes)
        if target.configured and call.client is not None:
            made = call.client.build_request(
                outgoing.method,
                f"{target.site.scheme}://{host_header(target.site).decode()}{outgoing.path.decode()}",
                headers=list(outgoing.headers),
                content=bounded,
                extensions={"timeout": outgoing.timeouts},
            )
            # The client keeps cookies, which may be those of another call.
            if not any(name.lower() == b"cookie" for name, _ in outgoing.headers):
                made.headers.pop("Cookie", None)
            found = await call.client.send(made, stream=True, follow_redirects=False)
            raw = found.aiter_raw()
            return Answer(found.status_code, found.headers.raw, found.extensions, raw, found.aclose)
        site = target.site
        response = await self._pool_for(call.tenant, target.configured).handle_async_request(
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
        return Answer(
            response.status, response.headers, response.extensions, chunks, response.aclose
        )
