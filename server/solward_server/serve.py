"""The REST application and a worker's small application, served until a stop is requested."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from quart import Quart

from solward.credentials.credentials import Credentials
from solward.credentials.rates import traffic_limiter
from solward.service.service import Solward
from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward.support.tasks import in_background
from solward.types.errors import StoreError
from solward_server.http import middleware
from solward_server.http.auth import authenticate, public
from solward_server.http.body import (
    MAX_BODY_BYTES,
    ExactJSON,
    SizedRequest,
    check_requests,
)
from solward_server.http.errors import handle_errors
from solward_server.http.middleware import ObservedQuart
from solward_server.http.route_context import RouteContext
from solward_server.listening import connections_allowed
from solward_server.resources import BLUEPRINTS, PREFIX, metrics, openapi
from solward_server.resources.mcp import mount_mcp
from solward_server.resources.metrics import filling_gauges

if TYPE_CHECKING:
    from solward.agents.queue import Worker

SECOND_SIGNAL_S = 1.0

# If the process is killed, it loses the uses of keys of this time at most.
KEY_USES_FLUSH_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port where the API listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The server's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def health(self) -> str:
        """The address of the health check."""
        return f"{self.url}/api/v1/health"


async def serve(
    service: Solward,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    ready: Callable[[Address], None] = lambda _address: None,
) -> None:
    """Serve until `stop` is set; running requests then get 10 s to end.

    Raises:
        ConfigError: the settings are unsafe to serve with.
    """
    service.settings.check_serving()
    host, port = listening.getsockname()[:2]
    app = create_app(service)

    async def stopping() -> None:
        await stop.wait()
        # Event streams never end by themselves, and the stop must not wait for them.
        service.events.close()

    bounds = Bounds(connections=connections_allowed())
    server = asyncio.create_task(serve_http(app, listening, stopping, bounds))
    # The socket listens already: connections from now on are accepted.
    ready(Address(str(host), int(port)))
    try:
        await server
    finally:
        service.events.close()


@contextlib.asynccontextmanager
async def stop_on_signals() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second signal, later, ends the process."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def restore_default_handlers() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def request_stop() -> None:
        if not stop.is_set():
            stop.set()
            # Supervisors signal a process and then its group: that is one request to stop, not two.
            loop.call_later(SECOND_SIGNAL_S, restore_default_handlers)

    for number in numbers:
        # Windows event loops have no signal handlers; there Ctrl-C cancels the runner.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, request_stop)
    yield stop


def create_app(service: Solward) -> Quart:
    """Return the REST application over an open service; it neither opens nor closes the service."""
    app = middleware.ObservedQuart("solward_server")
    app.json = ExactJSON(app)
    app.request_class = SizedRequest
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = True
    # A redirect would make clients repeat a payment's POST elsewhere, or without its body.
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False

    context = RouteContext.from_service(service)
    middleware.allow_origins(app, service.settings.cors_origins)
    if service.settings.development_secret:
        # The secret is public, so DNS rebinding alone would let another site's page call all
        # routes.
        middleware.check_hosts(app, service.settings)
    authenticate(app, service.settings, service.credentials, context.traffic)
    check_requests(app, PREFIX)
    handle_errors(app, service.settings)
    for make_blueprint in BLUEPRINTS:
        blueprint = make_blueprint(context)
        app.register_blueprint(blueprint, url_prefix=PREFIX + (blueprint.url_prefix or ""))
    app.register_blueprint(openapi.page.blueprint(openapi.folder()))
    app.register_blueprint(metrics.routes.blueprint())
    mount_mcp(app, service.settings)
    described = openapi.blueprint(app, lambda: service.live.registry, PREFIX, service.settings)
    app.register_blueprint(described, url_prefix=PREFIX)
    middleware.forbid_caching(app)

    @app.while_serving
    async def key_uses() -> AsyncGenerator[None, None]:
        async with in_background(_flush_uses_regularly(service.credentials), "key-uses"):
            with filling_gauges(service, "api"):
                yield
        await _flush_key_uses(service.credentials)

    return app


async def _flush_uses_regularly(credentials: Credentials) -> None:
    while True:
        await asyncio.sleep(KEY_USES_FLUSH_S)
        await _flush_key_uses(credentials)


async def _flush_key_uses(credentials: Credentials) -> None:
    try:
        await credentials.flush()
    except StoreError as error:
        _log.warning("key_uses_not_written", error=str(error))


READY_WAIT_S = 1.0


def create_worker_app(service: Solward, worker: Worker) -> Quart:
    """Return a worker's application: `/healthz` and `/readyz`, public, for supervisors, and
    `/metrics` for the admin."""
    app = ObservedQuart("solward_worker")
    authenticate(
        app,
        service.settings,
        service.credentials,
        traffic_limiter(service.database),
    )
    handle_errors(app, service.settings)
    app.register_blueprint(metrics.routes.blueprint())

    @app.get("/healthz")
    @public
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    @public
    async def readyz() -> tuple[dict[str, bool], int]:
        ledger, queue = await asyncio.gather(service.display.health(), _queue_ready(worker))
        # The queue is in the database, so it stands for both.
        parts = {"ledger": bool(ledger["healthy"]), "queue": queue}
        return parts, 200 if all(parts.values()) else 503

    return app


async def serve_worker(
    service: Solward, worker: Worker, listening: socket.socket, stop: asyncio.Event
) -> None:
    """Serve a worker's application until `stop` is set."""
    app = create_worker_app(service, worker)
    with filling_gauges(service, "worker"):
        bounds = Bounds(connections=connections_allowed())
        await serve_http(app, listening, stop.wait, bounds)


async def _queue_ready(worker: Worker) -> bool:
    try:
        async with asyncio.timeout(READY_WAIT_S):
            return await worker.ready()
    except (TimeoutError, StoreError):
        return False
