"""The address book: contacts, which people name, and the members of the policy's groups."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from solward.resources import examples
from solward.resources.answers import Answer
from solward.resources.declare import Call, Request, declared, resource
from solward.resources.fields import Address, Flag, Text, Time

_NAME = Text("What it is called.", most=64, example="Landlord")
_ADDRESS = Address("The recipient.", example=examples.STRANGER)


@resource
class NewContact(Request):
    """A recipient that is to be named, or renamed."""

    name: str = declared(_NAME)
    address: str = declared(_ADDRESS)


@resource
class Contact(Answer):
    """What a recipient is called."""

    address: str = declared(_ADDRESS)
    name: str = declared(_NAME)
    created_at: datetime | None = declared(
        Time("When it was named; null: a member of the group `@name`.", example=examples.MADE)
    )


@resource
class Removed(Answer):
    """A contact that is removed."""

    address: str = declared(Text("As given.", example=_ADDRESS.example))
    removed: bool = declared(Flag("Always true.", const=True))


LIST_CONTACTS = Call(
    "listContacts",
    "GET /contacts",
    "The address book: contacts by name, and behind them the members of the policy's groups.",
    Contact,
    listed="contacts",
    about="Contacts allow nothing, and no grant reads them. Groups are changed with the policy.",
)
PUT_CONTACT = Call(
    "putContact",
    "POST /contacts",
    "Name an address, or rename it.",
    Contact,
    body=NewContact,
    about="No two names look alike, and no address that has a name can be taken for another one by"
    " its first and last characters.",
)
REMOVE_CONTACT = Call(
    "removeContact", "DELETE /contacts/{contact_id}", "Take a recipient's name away.", Removed
)
CALLS: tuple[Call[Any], ...] = (LIST_CONTACTS, PUT_CONTACT, REMOVE_CONTACT)
