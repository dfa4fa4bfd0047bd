"""`solward server start`: the REST server. `solward worker`: one of any number that run agents'
cycles on a shared PostgreSQL. `solward dashboard`: the pages, in a process of their own."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import click

from solward.support.extras import hide_modules
from solward.types.errors import ConfigError, StoreError
from solward_cli.entrypoint import (
    begin_service,
    freeze_gc,
    host_option,
    import_lean,
    log_level_option,
    port_option,
    read_settings,
    refusals,
    run,
    serving_settings,
)

if TYPE_CHECKING:
    from solward.agents.queue import Worker
    from solward.service.service import Solward


WORKER_PORT = 3002
EXIT_LOST = 1
RESTART_S = 1.0


@click.group()
def server() -> None:
    """Serve the REST API alone."""


@server.command()
@host_option
@port_option
@log_level_option
def start(host: str | None, port: int | None, log_level: str) -> None:
    """Serve the API until interrupted."""
    begin_service()
    from solward.service.service import Solward
    from solward_server.listening import listen
    from solward_server.serve import Address, serve, stop_on_signals

    def announce(address: Address) -> None:
        click.echo(f"Server: {address.url}")
        click.echo(f"Health: {address.health}")

    with refusals():
        settings = serving_settings(host, port)
        settings.check_shared_ledger()
        listening = listen(settings.api_host, settings.api_port)

    async def work() -> None:
        async with stop_on_signals() as stop, Solward.open(settings) as service:
            freeze_gc()
            await serve(service, listening, stop, ready=announce)
        click.echo("Solward has stopped.")

    with listening:
        run(work, log_level=log_level)


@click.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=300,
    show_default=True,
    help="Number of cycles that run at the same time.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of /healthz, /readyz and /metrics.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=WORKER_PORT,
    show_default=True,
    help="Port of the three endpoints; 0 takes a free one.",
)
@log_level_option
def worker(concurrency: int, host: str, port: int, log_level: str) -> None:
    """Run agents' cycles until interrupted, on a PostgreSQL that other processes share.

    Exits with 0 when it is stopped, after its payments are recorded; with 1 when it loses the
    queue and must be restarted; with 2 when it cannot start.
    """
    begin_service()
    from solward.service.service import Solward
    from solward_server.listening import listen
    from solward_server.serve import Address, stop_on_signals

    with refusals():
        settings = serving_settings(host, port)
        if not settings.shared_database:
            raise ConfigError(
                "solward worker needs a PostgreSQL in DATABASE_URL; on SQLite the service runs its"
                " agents itself"
            )
        settings.check_shared_ledger()
        listening = listen(host, port, variables=("--port", "--port"))

    async def work() -> None:
        from solward.agents.queue import Worker, WorkerLost
        from solward_server.serve import serve_worker

        async with stop_on_signals() as stop, Solward.open(settings, kind="worker") as service:
            freeze_gc()
            agents = Worker(service.database, service.agents.run_cycle, concurrency=concurrency)
            address = Address(*listening.getsockname()[:2])
            click.echo(f"Worker: {address.url} (/healthz, /readyz, /metrics)")
            try:
                await run_worker(agents, stop, serve_worker(service, agents, listening, stop))
            except WorkerLost as error:
                click.echo(f"Error: {error}; start the worker again", err=True)
                sys.exit(EXIT_LOST)
        click.echo("The worker has stopped.")

    with listening:
        run(work, log_level=log_level, service="solward-worker")


async def run_worker(
    worker: Worker, stop: asyncio.Event, endpoint: Coroutine[Any, Any, None] | None = None
) -> None:
    """Run a worker and its HTTP endpoint until `stop` is set.

    Raises:
        WorkerLost: the worker ended by itself; with an endpoint, `stop` is set then.
    """
    tasks = [asyncio.create_task(worker.run())]
    if endpoint is not None:
        tasks.append(asyncio.create_task(endpoint))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        worker.stop()
        if endpoint is not None:
            stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def run_workers(service: Solward, stop: asyncio.Event) -> None:
    """Run a worker until `stop` is set, and a new one whenever one is lost."""
    import structlog

    from solward.agents.queue import Worker, WorkerLost

    log = structlog.get_logger(__name__)
    while not stop.is_set():
        try:
            await run_worker(Worker(service.database, service.agents.run_cycle), stop)
        except (WorkerLost, StoreError) as error:
            log.error("worker_lost", error=str(error))
            await asyncio.sleep(RESTART_S)


@click.command()
@click.option(
    "--host", default=None, help="Address to listen on.  [default: DASHBOARD_HOST or 127.0.0.1]"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port of the dashboard; 0 takes a free one.  [default: DASHBOARD_PORT or 3000]",
)
# `solward up` passes the port that it has bound, and the dashboard ends with it.
@click.option("--fd", type=int, default=None, hidden=True)
def dashboard(host: str | None, port: int | None, fd: int | None) -> None:
    """Serve the dashboard of a running service; Ctrl-C stops it.

    Without DASHBOARD_PASSWORD only this machine can open the dashboard.
    """
    import_lean()
    from solward.telemetry import logs
    from solward_server.listening import listen

    # Below `warning` the libraries log every socket that opens or closes.
    logs.configure("warning")
    with refusals():
        settings = read_settings(dashboard_host=host, dashboard_port=port)
        if fd is not None:
            listening = socket.socket(fileno=fd)
        else:
            listening = listen(
                settings.dashboard_host,
                settings.dashboard_port,
                variables=("--port", "DASHBOARD_PORT"),
            )
        with listening:
            # Imported late, so that a refusal does not wait for NiceGUI.
            from solward_dashboard.options import Options

            options = Options.from_settings(
                settings, settings.dashboard_host, int(listening.getsockname()[1])
            )
            import_pages()
            from solward_dashboard.serve import serve

            def ready(url: str) -> None:
                if fd is None:
                    click.echo(f"Dashboard: {url}")
                    click.echo(f"Service:   {options.api_url}")

            serve(options, listening, ready=ready, until_stdin_ends=fd is not None)


def import_pages() -> None:
    """Import the dashboard without Socket.IO's clients and uvicorn's file watcher: 8 MB less."""
    with hide_modules("aiohttp", "requests", "watchfiles", "websocket"):
        import solward_dashboard.serve  # noqa: F401
