"""`solward config show` and `running`, and `solward version`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solward_cli.service_call import ServiceCall, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.settings import Settings


@click.group()
def config() -> None:
    """What the environment configures."""


@config.command()
def show() -> None:
    """Print every setting as the service would read it, secrets masked.

    What no service starts with is said on standard error.
    """
    from solward.settings import Settings
    from solward_cli.doctor.home import not_served
    from solward_cli.entrypoint import refusals

    with refusals():
        settings = Settings()
    _print(settings)
    for why in not_served(settings):
        click.echo(f"Not served like this: {why}", err=True)


def _print(settings: Settings) -> None:
    from solward_cli.render import is_terminal, show, table

    if is_terminal():
        show(table(("VARIABLE", "VALUE"), settings.masked().items(), ""))
        return
    for name, value in settings.masked().items():
        click.echo(f"{name}={value}")


@config.command("running")
@click.option("--all", "every", is_flag=True, help="Also what nobody set, with its default.")
@service_call
async def running(call: ServiceCall, every: bool) -> RenderableType:
    """Print the running service's settings: values, defaults, where they come from.

    Of a secret only whether it is set. It needs the admin secret.
    """
    from solward_cli.render import table

    rows = [
        (
            each.name,
            "set" if each.secret and each.set else each.value or "",
            each.default or "",
            each.source,
            "ceiling" if each.ceiling else "",
        )
        for each in await call.client.settings()
        if every or each.set or each.ceiling
    ]
    return table(("VARIABLE", "VALUE", "DEFAULT", "FROM", "KIND"), rows, "Nothing is set.")


@click.command()
def version() -> None:
    """Print the version of Solward."""
    from solward import __version__

    click.echo(__version__)
