"""`solward worker`: runs agents' cycles, one of any number on a shared PostgreSQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from solward_cli.options import log_level_option

if TYPE_CHECKING:
    from solward.settings import Settings

PORT = 3002
EXIT_LOST = 1


@click.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=300,
    show_default=True,
    help="Cycles at one time.",
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
    default=PORT,
    show_default=True,
    help="Their port; 0 takes a free one.",
)
@log_level_option
def worker(concurrency: int, host: str, port: int, log_level: str) -> None:
    """Run the cycles of agents until interrupted, on a PostgreSQL that other processes share.

    Ends with 0 when it was told to, once what it was paying is recorded; with 1 when the queue
    gave up on it or went away, for a supervisor to start another; with 2 when it cannot start.
    """
    from solward_cli.entrypoint import (
        freeze_gc,
        hold_gc,
        import_lean,
        refusals,
        run,
        serving_settings,
    )

    hold_gc()
    import_lean()
    from solward.service.service import Solward
    from solward_server.listening import listen
    from solward_server.serve import Address, stop_on_signals

    with refusals():
        settings = serving_settings(host, port)
        _check(settings)
        listening = listen(host, port, variables=("--port", "--port"))

    async def work() -> None:
        from solward.agents.worker import WorkerLost
        from solward_cli.worker_loop import agents_worker, run_worker
        from solward_server.worker_endpoint import serve_worker

        async with stop_on_signals() as stop, Solward.open(settings, kind="worker") as service:
            freeze_gc()
            agents = agents_worker(service, concurrency)
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


def _check(settings: Settings) -> None:
    from solward.types.errors import ConfigError

    if not settings.shared_database:
        raise ConfigError(
            "solward worker needs a PostgreSQL in DATABASE_URL; on SQLite the service runs its"
            " agents itself"
        )
    settings.check_shared_ledger()
