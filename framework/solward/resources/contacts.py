"""The address book: contacts, which people name, and the members of the policy's groups."""

from __future__ import annotations

from datetime import datetime

from solward.resources import examples
from solward.resources.answers import Answer
from solward.resources.declare import Call, Request, declared, resource
from solward.resources.fields import Address, Text, Time

_NAME = Text("What it is called.", most=64, example="Landlord")
_ADDRESS = Address("The recipient.", example="9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g")


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


PUT_CONTACT = Call(
    "putContact",
    "Name an address, or rename it.",
    "POST",
    "/contacts",
    NewContact,
    Contact,
    name="put",
)
CONTACT_CALLS = (PUT_CONTACT,)
