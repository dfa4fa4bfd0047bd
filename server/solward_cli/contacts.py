"""`solward contacts add|list|remove`: what recipients are called."""

from __future__ import annotations

import click

from solward.resources.contacts import LIST_CONTACTS, PUT_CONTACT, REMOVE_CONTACT
from solward_cli.declared import asks, lists


@click.group()
def contacts() -> None:
    """Names for recipients; they allow nothing, and need the admin secret."""


asks(
    contacts,
    PUT_CONTACT,
    "Call ADDRESS by NAME, or rename it.",
    "{answer.address} is called {answer.name}.",
    name="add",
)
lists(
    contacts,
    LIST_CONTACTS,
    "List the contacts, and behind them the groups of the policy, as @name.",
    *("name", "address", "created_at"),
    empty="There are no contacts yet.",
)
asks(
    contacts,
    REMOVE_CONTACT,
    "Take CONTACT's name away: by its name or its address.",
    "{answer.address} has no name any more.",
    question="Take the name {contact.name} away from {contact.address}?",
)
