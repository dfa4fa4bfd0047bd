"""A worker's HTTP endpoint: liveness, readiness and metrics."""

from __future__ import annotations

import asyncio
import socket

from quart import Quart

from solward.agents.worker import Worker
from solward.credentials.rates import traffic_limiter
from solward.service.service import Solward
from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward.types.errors import StoreError
from solward_server.gauges import filling_gauges
from solward_server.http.auth import authenticate, public
from solward_server.http.errors import handle_errors
from solward_server.http.middleware import ObservedQuart
from solward_server.listening import connections_allowed
from solward_server.resources import metrics

READY_WAIT_S = 1.0


def create_worker_app(service: Solward, worker: Worker) -> Quart:
    """`/healthz` and `/readyz`, public, for supervisors; `/metrics` for the admin."""
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
    """Serve the endpoint until `stop` is set."""
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
