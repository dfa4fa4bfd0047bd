"""`solward config show` and `solward version`."""

from __future__ import annotations

import sys

import click


@click.group()
def config() -> None:
    """What the environment configures."""


@config.command()
def show() -> None:
    """Print every setting as the service would read it, secrets masked."""
    from rich.console import Console
    from rich.table import Table

    from solward.settings import Settings
    from solward_cli.entrypoint import refusals

    with refusals():
        settings = Settings()
    if not sys.stdout.isatty():
        for name, value in settings.masked().items():
            click.echo(f"{name}={value}")
        return
    table = Table("Variable", "Value", box=None)
    for name, value in settings.masked().items():
        table.add_row(name, value or "-")
    Console().print(table)


@click.command()
def version() -> None:
    """Print the version of Solward."""
    from solward import __version__

    click.echo(__version__)
