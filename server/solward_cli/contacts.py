"""`solward contacts add|list|remove`: what recipients are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from solward.resources.contacts import NewContact
from solward_cli.declared import request_options, sent
from solward_cli.service_call import ServiceCall, confirmed, service_call, yes_option

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.group()
def contacts() -> None:
    """Names for recipients; they allow nothing, and need the admin secret."""


@contacts.command()
@request_options(NewContact)
@service_call
async def add(call: ServiceCall, **values: Any) -> RenderableType:
    """Call ADDRESS by NAME, or rename it."""
    from solward_cli.render import plain, visible

    made = await call.client.contacts.put(**await sent(call, NewContact, values))
    return plain(f"{made.address} is called {visible(made.name)}.")


@contacts.command("list")
@service_call
async def listing(call: ServiceCall) -> RenderableType:
    """List the contacts, and behind them the groups of the policy, as @name."""
    from solward_cli.render import moment, table, visible

    rows = []
    for each in await call.client.contacts.list():
        at = "" if each.created_at is None else moment(each.created_at)
        rows.append((visible(each.name), each.address, at))
    return table(("NAME", "ADDRESS", "NAMED (UTC)"), rows, "There are no contacts yet.")


@contacts.command()
@click.argument("contact")
@yes_option
@service_call
async def remove(call: ServiceCall, contact: str, yes: bool) -> RenderableType:
    """Take CONTACT's name away: by its name or its address."""
    from solward.client import NotFoundError
    from solward_cli.render import plain, visible

    found = [
        each
        for each in await call.client.contacts.list()
        if contact in (each.name, each.address) and each.created_at is not None
    ]
    if not found:
        raise NotFoundError(404, f"No contact has the name or the address {contact!r}")
    confirmed(f"Take the name {visible(found[0].name)} away from {found[0].address}?", yes)
    await call.client.contacts.remove(found[0].address)
    return plain(f"{found[0].address} has no name any more.")
