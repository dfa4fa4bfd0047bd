"""`solward contacts add|list|remove`: what recipients are called."""

from __future__ import annotations

from typing import Any

import click

from solward.resources.contacts import NewContact
from solward_cli.declared import request_options, sent
from solward_cli.options import yes_option
from solward_cli.render import Output, plain, visible
from solward_cli.service_call import ServiceCall, confirmed, service_call
from solward_cli.shown_answers import answer_table


@click.group()
def contacts() -> None:
    """Names for recipients; they allow nothing, and need the admin secret."""


@contacts.command()
@request_options(NewContact)
@service_call
async def add(call: ServiceCall, **values: Any) -> Output:
    """Call ADDRESS by NAME, or rename it."""
    made = await call.client.contacts.put(**sent(NewContact, values))
    return plain(f"{made.address} is called {visible(made.name)}.")


@contacts.command("list")
@service_call
async def listing(call: ServiceCall) -> Output:
    """List the contacts, and behind them the groups of the policy, as @name."""
    found = await call.client.contacts.list()
    return answer_table(found, "name", "address", "created_at", empty="There are no contacts yet.")


@contacts.command()
@click.argument("contact")
@yes_option
@service_call
async def remove(call: ServiceCall, contact: str, yes: bool) -> Output:
    """Take CONTACT's name away: by its name or its address."""
    from solward.client import NotFoundError

    for each in await call.client.contacts.list():
        if contact in (each.name, each.address) and each.created_at is not None:
            confirmed(f"Take the name {visible(each.name)} away from {each.address}?", yes)
            await call.client.contacts.remove(each.address)
            return plain(f"{each.address} has no name any more.")
    raise NotFoundError(404, f"No contact has the name or the address {contact!r}")
