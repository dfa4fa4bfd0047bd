"""`solward dashboard`: the pages, in a process of their own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solward_dashboard.options import Options


@click.command()
@click.option(
    "--host", default=None, help="Address to listen on.  [default: DASHBOARD_HOST or 127.0.0.1]"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port of the pages; 0 takes a free one.  [default: DASHBOARD_PORT or 3000]",
)
# For `solward up`: it has taken the port already, and its end is the dashboard's.
@click.option("--fd", type=int, default=None, hidden=True)
def dashboard(host: str | None, port: int | None, fd: int | None) -> None:
    """Serve the dashboard, a client of the running service; Ctrl-C stops it.

    Without DASHBOARD_PASSWORD it is for this machine only.
    """
    from solward.settings import Settings
    from solward.settings.masking import forget_secrets
    from solward.telemetry import logs
    from solward_cli.entrypoint import refusals
    from solward_server.listening import listen

    # What its libraries tell below that is of sockets that came and went.
    logs.configure("warning")
    with refusals():
        settings = Settings()
        forget_secrets(Settings)
        chosen = settings.dashboard_host if host is None else host
        if fd is not None:
            listening = socket.socket(fileno=fd)
        else:
            listening = listen(
                chosen,
                settings.dashboard_port if port is None else port,
                variables=("--port", "DASHBOARD_PORT"),
            )
        with listening:
            # Imported late: a refusal need not wait for all of the pages' libraries.
            from solward_dashboard.options import Options

            options = Options.of(settings, chosen, int(listening.getsockname()[1]))
            _serve(options, listening, attached=fd is not None)


def _serve(options: Options, listening: socket.socket, *, attached: bool) -> None:
    from solward_dashboard.serve import serve

    def ready(url: str) -> None:
        if not attached:
            click.echo(f"Dashboard: {url}")
            click.echo(f"Service:   {options.api_url}")

    serve(options, listening, ready=ready, until_stdin_ends=attached)
