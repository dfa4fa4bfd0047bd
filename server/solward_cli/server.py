"""`solward server start`: the REST server alone."""

from __future__ import annotations

import click

from solward_cli.entrypoint import begin_service, freeze_gc, refusals, run, serving_settings
from solward_cli.options import host_option, log_level_option, port_option


@click.group()
def server() -> None:
    """The REST server alone."""


@server.command()
@host_option
@port_option
@log_level_option
def start(host: str | None, port: int | None, log_level: str) -> None:
    """Serve the API until interrupted; prints the server's and the health address."""
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
