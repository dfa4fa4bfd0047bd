"""`solward database upgrade`: the queue's tables, after an upgrade of procrastinate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solward_cli.entrypoint import home_command, offline_database

if TYPE_CHECKING:
    from solward.settings import Settings


@click.group()
def database() -> None:
    """The database that DATABASE_URL names."""


@database.command()
@home_command
async def upgrade(settings: Settings) -> None:
    """Bring the queue's tables up to the installed procrastinate, while the service is stopped.

    A service whose tables are older refuses to start until then. Each migration is applied whole or
    not at all; interrupted, the command goes on where it was. Make a backup first: nothing takes a
    migration back. On SQLite there is no queue, and nothing to do.
    """
    async with offline_database(settings) as opened:
        if not opened.shared:
            click.echo("On SQLite there is no queue: nothing to upgrade.")
            return
        from procrastinate import __version__ as release

        from solward.agents.store import queue_tables

        for name in await queue_tables.upgrade(opened):
            click.echo(f"Applied {name}")
    click.echo(f"The queue's tables fit procrastinate {release}.")
