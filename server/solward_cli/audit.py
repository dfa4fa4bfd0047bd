"""`solward audit verify`: whether the audit log is whole."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from solward_cli.events import audit_list

if TYPE_CHECKING:
    from solward.settings import Settings
    from solward.store.audit import Log as Chain

_EXIT_BROKEN = 1


@click.group()
def audit() -> None:
    """The hash-chained log of what was done."""


audit.add_command(audit_list)


@audit.command()
@click.option("--head", help="A hash this printed earlier: it must still be in the log.")
def verify(head: str | None) -> None:
    """Check every entry of the audit log, also while the service runs.

    Reads the database of SOLWARD_HOME, or DATABASE_URL. Exits with 1 and names the first entry
    that was changed or is missing. Keep the head's hash elsewhere: whoever can rewrite the whole
    database cannot make an earlier head fit.
    """
    import asyncio

    from solward.clock import iso
    from solward.errors import AuditBroken
    from solward.masking import forget_secrets
    from solward.settings import Settings
    from solward_cli.running import refusals

    with refusals():
        settings = Settings()
        forget_secrets(Settings)
        try:
            chain = asyncio.run(_verify(settings, head))
        except AuditBroken as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(_EXIT_BROKEN)
    click.echo(f"Entries: {chain.length}")
    if chain.first_ms is not None and chain.last_ms is not None:
        click.echo(f"First:   {iso(chain.first_ms)}")
        click.echo(f"Last:    {iso(chain.last_ms)}")
    click.echo(f"Head:    {chain.hash}")


async def _verify(settings: Settings, head: str | None) -> Chain:
    from solward.audit import AuditLog
    from solward.store.database import Database

    database = Database.inspect(settings.database_url, settings.solward_home)
    try:
        return await AuditLog(database).verify(head)
    finally:
        await database.close()
