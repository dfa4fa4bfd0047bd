"""`solward config show|running`, `solward version` and `solward database upgrade`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from solward import __version__
from solward.types.errors import ConfigError
from solward_cli.entrypoint import home_command, offline_database, refusals
from solward_cli.render import Output, answer_table, is_terminal, table
from solward_cli.render import show as show_text
from solward_cli.service_call import ServiceCall, service_call

if TYPE_CHECKING:
    from solward.settings import Settings


@click.group()
def config() -> None:
    """Show the settings."""


@config.command()
def show() -> None:
    """Print every setting as a service started here would read it, secrets masked.

    Settings that stop a service's start are named on standard error.
    """
    from solward.settings import Settings

    with refusals():
        settings = Settings()
    if is_terminal():
        show_text(table(("VARIABLE", "VALUE"), settings.masked().items(), ""))
    else:
        for name, value in settings.masked().items():
            click.echo(f"{name}={value}")
    for why in serving_problems(settings):
        click.echo(f"A service would not start: {why}", err=True)


def serving_problems(settings: Settings) -> Iterator[str]:
    """Yield the reasons why no service starts with these settings, although each value is valid."""
    from solward.database.database import database_file

    for check in (
        settings.check_serving,
        settings.check_shared_ledger,
        lambda: settings.approval_webhook,
        lambda: settings.alert_webhook,
        lambda: settings.approval_chats,
        lambda: database_file(settings.database_url, settings.solward_home),
    ):
        try:
            check()
        except ConfigError as error:
            yield str(error)


@config.command("running")
@click.option("--all", "every", is_flag=True, help="Also print settings that have their default.")
@service_call
async def running(call: ServiceCall, every: bool) -> Output:
    """Print the running service's settings with their defaults and sources.

    A secret is shown only as set or not set. Needs the admin secret.
    """
    found = await call.client.settings()
    return answer_table(
        [each for each in found if every or each.set or each.ceiling],
        "name",
        ("value", lambda each: "set" if each.secret and each.set else each.value),
        *("default", "source", "ceiling"),
        empty="Nothing is set.",
    )


@click.command()
def version() -> None:
    """Print the version of Solward."""
    click.echo(__version__)


@click.group()
def database() -> None:
    """Upgrade the task queue's tables on PostgreSQL."""


@database.command()
@home_command
async def upgrade(settings: Settings) -> None:
    """Upgrade the task queue's tables, while the service is stopped.

    They must match the installed procrastinate, or the service refuses to start. Each migration is
    applied completely or not at all. If the command is interrupted, run it again. Make a backup
    first: migrations cannot be undone. On SQLite there is no queue, and nothing to do.
    """
    async with offline_database(settings) as opened:
        if not opened.shared:
            click.echo("On SQLite there is no queue: nothing to upgrade.")
            return
        from procrastinate import __version__ as release

        from solward.agents import queue

        for name in await queue.upgrade(opened):
            click.echo(f"Applied {name}")
    click.echo(f"The queue's tables match procrastinate {release}.")
