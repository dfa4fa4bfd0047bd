"""`solward admin add|list|revoke`: admin credentials of the running service, each with a role."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from solward_cli.options import expiry
from solward_cli.service_call import ServiceCall, confirmed, service_call, yes_option

if TYPE_CHECKING:
    from rich.console import RenderableType

# Those of `solward.types.roles`, which this process need not import to show its help.
ROLES = ("read", "operate", "policy")


@click.group()
def admin() -> None:
    """Admin credentials of the running service, each with a role.

    \b
    read     sees everything that the admin secret sees
    operate  also freezes, starts, stops and pauses agents, pauses schedules, revokes keys, denies
    policy   also whatever may let money leave or widens a bound: all that the admin secret may
    """


@admin.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it may do.")
@click.option("--expires", type=expiry, metavar="TIME", help="When it ends: ISO 8601, or 90d.")
@service_call
async def add(call: ServiceCall, name: str, role: str, expires: datetime | None) -> RenderableType:
    """Create an admin credential and print its secret, this once."""
    from solward_cli.render import plain, visible

    created = await call.client.admins.create(name=name, role=role, expires_at=expires)
    if not call.as_json:
        # Standard output is the secret alone, so that a shell can capture it.
        who = f"{visible(created.credential.name)} ({created.credential.id})"
        click.echo(f"Admin credential {who}, role {role}; it is shown this once:", err=True)
    return plain(created.secret)


@admin.command("list")
@service_call
async def listing(call: ServiceCall) -> RenderableType:
    """List the admin credentials: roles, last uses, and when they end."""
    from solward_cli.render import moment, short, table

    found = await call.client.admins.list()
    names = {f"admin:{each.id}": each.name for each in found}
    rows = [
        (
            short(each.id),
            each.name,
            each.role,
            # One that is gone has no name any more.
            names.get(each.created_by, each.created_by),
            "never" if each.last_used_at is None else moment(each.last_used_at),
            "never" if each.expires_at is None else moment(each.expires_at),
        )
        for each in found
    ]
    columns = ("ID", "NAME", "ROLE", "MADE BY", "LAST USED (UTC)", "ENDS (UTC)")
    return table(columns, rows, "There are no admin credentials beside the admin secret.")


@admin.command()
@click.argument("admin")
@yes_option
@service_call
async def revoke(call: ServiceCall, admin: str, yes: bool) -> RenderableType:
    """End an admin credential at once: by its name, its id, or the beginning of its id."""
    from solward.client.wallets import find_one
    from solward_cli.render import plain, visible

    found = find_one("admin credential", admin, await call.client.admins.list())
    confirmed(f"Revoke the admin credential {visible(found.name)} ({found.id})?", yes)
    made = await call.client.admins.revoke(found.id)
    if made and not call.as_json:
        names = ", ".join(visible(each.name) for each in made)
        click.echo(f"It had made others, which stay: {names}", err=True)
    return plain(f"{found.name}: revoked")
