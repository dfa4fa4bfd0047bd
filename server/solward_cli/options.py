"""Options several commands share."""

from __future__ import annotations

import click

host_option = click.option(
    "--host", default=None, help="Address to listen on.  [default: API_HOST or 127.0.0.1]"
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port of the API; 0 takes a free one.  [default: API_PORT or 3001]",
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What to write to standard error.",
)
