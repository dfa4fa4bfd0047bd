"""`solward dashboard`: the pages, in a process of their own."""

from __future__ import annotations

import socket

import click

from solward.support.extras import left_out
from solward_cli.entrypoint import import_lean, read_settings, refusals


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
# For `solward up`: it has bound the port, and the dashboard ends with it.
@click.option("--fd", type=int, default=None, hidden=True)
def dashboard(host: str | None, port: int | None, fd: int | None) -> None:
    """Serve the dashboard, a client of the running service; Ctrl-C stops it.

    Without DASHBOARD_PASSWORD it is for this machine only.
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
            # Imported late: a refusal does not wait for NiceGUI.
            from solward_dashboard.options import Options

            options = Options.of(settings, settings.dashboard_host, int(listening.getsockname()[1]))
            import_pages()
            from solward_dashboard.serve import serve

            def ready(url: str) -> None:
                if fd is None:
                    click.echo(f"Dashboard: {url}")
                    click.echo(f"Service:   {options.api_url}")

            serve(options, listening, ready=ready, until_stdin_ends=fd is not None)


def import_pages() -> None:
    """Import them without the clients of Socket.IO, of which they have the server, and without what
    uvicorn watches a developer's changes with: 8 MB."""
    with left_out("aiohttp", "requests", "watchfiles", "websocket"):
        import solward_dashboard.serve  # noqa: F401
