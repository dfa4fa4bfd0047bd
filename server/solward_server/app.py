"""The application factory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import structlog
from quart import Quart, Response, request

from solward.errors import StoreError
from solward.service import Solward
from solward_server.gauges import filling_gauges
from solward_server.http.api_keys import KeyStore
from solward_server.http.auth import authenticate
from solward_server.http.body import MAX_BODY_BYTES
from solward_server.http.cors import allow_origins
from solward_server.http.edge import edge_of
from solward_server.http.errors import handle_errors
from solward_server.http.host_check import host_guard
from solward_server.http.json_provider import ExactJSON
from solward_server.http.request_log import ObservedQuart
from solward_server.resources import BLUEPRINTS, PREFIX, docs, metrics
from solward_server.resources.mcp import mount_mcp

# The longest a key's last use may be lost when the process is killed.
KEY_USES_FLUSH_S = 5.0

_log = structlog.get_logger(__name__)


def create_app(service: Solward) -> Quart:
    """The REST application over an open service; it neither opens nor closes the service."""
    app = ObservedQuart("solward_server", static_folder=None)
    app.json = ExactJSON(app)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = True
    # A redirect would make clients repeat a payment's POST elsewhere, or without its body.
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False

    edge = edge_of(service)
    allow_origins(app, service.settings.cors_origins)
    if service.settings.development_secret:
        # Everybody knows it, so a page of another site that has its own name point here (DNS
        # rebinding) could call every route.
        check_host = host_guard(service.settings)

        @app.before_request
        async def by_an_own_name() -> None:
            check_host()

    authenticate(app, edge.keys, service.settings.api_secret.get_secret_value())
    handle_errors(app)
    for blueprint in BLUEPRINTS:
        made = blueprint(edge)
        app.register_blueprint(made, url_prefix=PREFIX + (made.url_prefix or ""))
    app.register_blueprint(docs.description(edge, PREFIX), url_prefix=PREFIX)
    app.register_blueprint(docs.page())
    app.register_blueprint(metrics.page())
    mount_mcp(app, service.settings)
    _protect_answers(app)

    @app.while_serving
    async def key_uses() -> AsyncGenerator[None, None]:
        task = asyncio.create_task(_flush_regularly(edge.keys))
        with filling_gauges(service, "api"):
            yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await _flush(edge.keys)

    return app


def _protect_answers(app: Quart) -> None:
    """Nobody between server and caller keeps an answer: balances change, and keys are shown."""

    @app.after_request
    async def protect(response: Response) -> Response:
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        if request.method == "OPTIONS":
            # Which methods there are stands in `Allow`; the empty body is of no type.
            response.headers.pop("Content-Type", None)
        return response


async def _flush_regularly(keys: KeyStore) -> None:
    while True:
        await asyncio.sleep(KEY_USES_FLUSH_S)
        await _flush(keys)


async def _flush(keys: KeyStore) -> None:
    try:
        await keys.flush()
    except StoreError as error:
        _log.warning("key_uses_not_written", error=str(error))
